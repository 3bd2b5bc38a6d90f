{{/* Names and labels. The names of Lease, Secret and webhook come from the controller's configuration and do not depend on
the release, so that commands such as `rescheduler cleanup` find them. */}}

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

{{/* Labels of every object. Those that selectors use override `commonLabels`. */}}
{{- define "kube-rescheduler.labels" -}}
{{ include "kube-rescheduler.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with omit .Values.commonLabels "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "app.kubernetes.io/component" "helm.sh/chart" }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of the pods. Without the version, so that a new chart version alone does not roll them. */}}
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
