{{/* Names and labels. What the controller calls its own things (Lease, Secret, webhook) is said by its configuration,
and the same there and here, so that commands such as `rescheduler cleanup` find them whatever the release is called. */}}

{{- define "kube-rescheduler.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kube-rescheduler.fullname" -}}
{{- $name := include "kube-rescheduler.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kube-rescheduler.selector" -}}
app.kubernetes.io/name: {{ include "kube-rescheduler.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Of every object; what selectors look for goes over what somebody gives. */}}
{{- define "kube-rescheduler.labels" -}}
{{ include "kube-rescheduler.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with omit .Values.commonLabels "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "app.kubernetes.io/component" "helm.sh/chart" }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Of the pods. No version: a new one of the chart alone rolls nothing. */}}
{{- define "kube-rescheduler.podLabels" -}}
{{- merge (include "kube-rescheduler.selector" . | fromYaml) .Values.podLabels .Values.commonLabels | toYaml -}}
{{- end -}}

{{- define "kube-rescheduler.configMap" -}}
{{- .Values.existingConfigMap | default (include "kube-rescheduler.fullname" .) -}}
{{- end -}}

{{- define "kube-rescheduler.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kube-rescheduler.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "kube-rescheduler.subject" -}}
- kind: ServiceAccount
  name: {{ include "kube-rescheduler.account" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end -}}

{{- define "kube-rescheduler.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "kube-rescheduler.priorityClassName" -}}
{{- if .Values.priorityClassName -}}
{{- .Values.priorityClassName -}}
{{- else if .Values.priorityClass.create -}}
{{- include "kube-rescheduler.fullname" . -}}
{{- end -}}
{{- end -}}
