/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a name's addresses, one per line, by getaddrinfo() of the linked libc. usage: resolve NAME */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>

int main(int count, char **words)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found, *each;
	char text[INET_ADDRSTRLEN];
	int error;

	if (count != 2)
		return 2;
	error = getaddrinfo(words[1], NULL, &hints, &found);
	if (error) {
		fprintf(stderr, "%s: %s\n", words[1], gai_strerror(error));
		return 1;
	}
	for (each = found; each; each = each->ai_next) {
		const struct sockaddr_in *address = (const struct sockaddr_in *)each->ai_addr;

		puts(inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text)));
	}
	freeaddrinfo(found);
	return 0;
}
