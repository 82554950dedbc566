{{/* What several templates share. */}}

{{- define "sluice.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "sluice.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Whether the objects of k8s/deploy are wanted. */}}
{{- define "sluice.deployed" -}}
{{- if has .Values.mode (list "instead" "beside") }}yes{{ end -}}
{{- end -}}

{{/* Whether the clean-up is to be made at helm uninstall. */}}
{{- define "sluice.uninstall" -}}
{{- if eq .Values.mode "kubeadm" }}{{ if .Values.kubeadm.uninstall }}yes{{ end }}
{{- else if and .Values.uninstall.enabled (include "sluice.deployed" .) }}yes{{ end -}}
{{- end -}}

{{- define "sluice.security" -}}
runAsUser: 0
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
# SYS_ADMIN to look up programs and maps by their ids, and to find connected UDP sockets in pods' network namespaces (setns);
# SYS_PTRACE and DAC_READ_SEARCH to connect those again.
capabilities:
  drop: [ALL]
  add: [BPF, DAC_READ_SEARCH, NET_ADMIN, PERFMON, SYS_ADMIN, SYS_PTRACE]
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* An exec probe, because kube-proxy's port would answer an HTTP probe in the agent's place. */}}
{{- define "sluice.liveness" -}}
exec: {command: [/usr/bin/sluice, alive]}
periodSeconds: 10
timeoutSeconds: 5
failureThreshold: 6
{{- end -}}

{{- define "sluice.readiness" -}}
httpGet: {path: /healthz, port: {{ eq .Values.mode "beside" | ternary .Values.beside.healthPort 10256 }}}
periodSeconds: 5
{{- end -}}

{{- define "sluice.hostPaths" -}}
- name: bpf
  hostPath: {path: /sys/fs/bpf, type: Directory}
- name: cgroup
  hostPath: {path: /sys/fs/cgroup, type: Directory}
- name: netfilter
  hostPath: {path: /proc/sys/net/netfilter, type: Directory}
- name: netns
  hostPath: {path: /run/netns, type: DirectoryOrCreate}
{{- end -}}

{{- define "sluice.hostMounts" -}}
- {name: bpf, mountPath: /sys/fs/bpf}
- {name: cgroup, mountPath: /host/cgroup, readOnly: true}
- {name: netfilter, mountPath: /host/netfilter}
- {name: netns, mountPath: /run/netns, readOnly: true, mountPropagation: HostToContainer}
{{- end -}}

{{/* What all containers of the clean-up have. */}}
{{- define "sluice.cleaner" -}}
image: {{ include "sluice.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
resources:
  requests: {cpu: 10m, memory: 32Mi}
securityContext: {{ include "sluice.security" . | replace "DAC_READ_SEARCH, " "" | replace ", SYS_PTRACE" "" | nindent 2 }}
volumeMounts:
  - {name: bpf, mountPath: /sys/fs/bpf}
{{- end -}}
