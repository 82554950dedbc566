x | grep -q y
