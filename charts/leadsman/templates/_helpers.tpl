{{- define "leadsman.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 48 | trimSuffix "-" }}
{{- end }}

{{/* Leaves room for "-operator" within the 63 characters of a label. */}}
{{- define "leadsman.fullname" -}}
{{- $name := include "leadsman.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 48 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 48 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "leadsman.broker" -}}
{{ include "leadsman.fullname" . }}-broker
{{- end }}

{{- define "leadsman.operator" -}}
{{ include "leadsman.fullname" . }}-operator
{{- end }}

{{- define "leadsman.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "leadsman.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* What a selector holds; it never changes over an upgrade. Takes (list root component). */}}
{{- define "leadsman.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "leadsman.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "leadsman.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "leadsman.brokerServiceAccount" -}}
{{- .Values.broker.serviceAccount.name | default (ternary (include "leadsman.broker" .) "default" .Values.broker.serviceAccount.create) }}
{{- end }}

{{- define "leadsman.operatorServiceAccount" -}}
{{- .Values.operator.serviceAccount.name | default (ternary (include "leadsman.operator" .) "default" .Values.operator.serviceAccount.create) }}
{{- end }}

{{- define "leadsman.brokerUrl" -}}
http://{{ include "leadsman.broker" . }}.{{ .Release.Namespace }}.svc:8080
{{- end }}

{{/* The restricted Pod Security Standard, and a numeric user so that the kubelet can check it. */}}
{{- define "leadsman.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "leadsman.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "leadsman.pullSecrets" -}}
{{- with .Values.image.pullSecrets -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Where a pod may run. Takes the component's values. */}}
{{- define "leadsman.placement" -}}
{{- $placement := dict }}
{{- range $key := list "priorityClassName" "nodeSelector" "tolerations" }}
{{- with index $ $key }}
{{- $placement = set $placement $key . }}
{{- end }}
{{- end }}
{{- with $placement }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* Combinations that the schema cannot see. Every template that depends on one includes this. */}}
{{- define "leadsman.validate" -}}
{{- if and (eq .Values.broker.auth.mode "static") (not .Values.broker.auth.tokensSecret) }}
{{- fail "broker.auth.mode is static: name the Secret that holds the tokens in broker.auth.tokensSecret" }}
{{- end }}
{{- if and (eq .Values.broker.auth.mode "static") (not .Values.operator.brokerTokenSecret) }}
{{- fail "broker.auth.mode is static: name the Secret that holds the operator's token in operator.brokerTokenSecret" }}
{{- end }}
{{- if and (eq .Values.broker.auth.mode "kubernetes") (eq (include "leadsman.operatorServiceAccount" .) "default") }}
{{- fail "the operator needs a service account of its own: every pod without one would have the operator's rights at the broker; set operator.serviceAccount.create or .name" }}
{{- end }}
{{- end }}
