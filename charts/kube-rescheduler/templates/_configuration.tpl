{{/* Fields of the controller's configuration that the chart needs, with the controller's defaults (compared by
tests/chart/test_in_step.py), and checks for values that cannot work in a pod. */}}

{{- define "kube-rescheduler.lease" -}}
{{- (.Values.config.leaderElection).resourceName | default "kube-rescheduler" -}}
{{- end -}}

{{- define "kube-rescheduler.webhookName" -}}
{{- (.Values.config.webhook).name | default "kube-rescheduler" -}}
{{- end -}}

{{- define "kube-rescheduler.webhookService" -}}
{{- (.Values.config.webhook).serviceName | default "kube-rescheduler-webhook" -}}
{{- end -}}

{{- define "kube-rescheduler.webhookServicePort" -}}
{{- (.Values.config.webhook).servicePort | default 443 | int -}}
{{- end -}}

{{- define "kube-rescheduler.webhookPort" -}}
{{- (.Values.config.webhook).port | default 9443 | int -}}
{{- end -}}

{{/* The port of page and metrics; 0 if they are not served. */}}
{{- define "kube-rescheduler.webPort" -}}
{{- if .Values.dryRun -}}
0
{{- else -}}
{{- (.Values.config.web).port | default 0 | int -}}
{{- end -}}
{{- end -}}

{{/* The extender's port without TLS; 0 if it is not served. */}}
{{- define "kube-rescheduler.extenderPort" -}}
{{- if and (.Values.config.extender).enabled (not .Values.dryRun) -}}
{{- (.Values.config.extender).insecurePort | default 0 | int -}}
{{- else -}}
0
{{- end -}}
{{- end -}}

{{/* Whether the webhook's port is open; empty if not. */}}
{{- define "kube-rescheduler.secure" -}}
{{- $webhook := .Values.config.webhook | default dict -}}
{{- if .Values.dryRun -}}
{{- else if or $webhook.enabled (and (.Values.config.extender).enabled ($webhook.certificates).certificateFile) -}}
yes
{{- end -}}
{{- end -}}

{{/* Each server needs its own port. */}}
{{- define "kube-rescheduler.ports" -}}
{{- $taken := dict -}}
{{- $listening := list (list "config.web.port" (include "kube-rescheduler.webPort" .)) -}}
{{- if include "kube-rescheduler.secure" . -}}
{{- $listening = append $listening (list "config.webhook.port" (include "kube-rescheduler.webhookPort" .)) -}}
{{- end -}}
{{- range append $listening (list "config.extender.insecurePort" (include "kube-rescheduler.extenderPort" .)) -}}
{{- $port := last . -}}
{{- if hasKey $taken $port -}}
{{- fail (printf "%s and %s are both %s: give one of them another port." (get $taken $port) (first .) $port) -}}
{{- end -}}
{{- if ne $port "0" -}}
{{- $_ := set $taken $port (first .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kube-rescheduler.replicas" -}}
{{- if .Values.dryRun -}}
{{- min 1 (int .Values.replicas) -}}
{{- else -}}
{{- int .Values.replicas -}}
{{- end -}}
{{- end -}}

{{/* The sections that are read only when the process starts: a change of them must roll the pods. */}}
{{- define "kube-rescheduler.restartOnly" -}}
{{- pick .Values.config "leaderElection" "clientConnection" "web" "webhook" "extender" | toJson -}}
{{- end -}}

{{/* Two releases would both move pods: each has its Lease in its own namespace, so leader election does not help. */}}
{{- define "kube-rescheduler.alone" -}}
{{- if and .Values.rbac.create (not .Values.dryRun) -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" "").items -}}
{{- $labels := merge (dict) (.metadata.annotations | default dict) (.metadata.labels | default dict) -}}
{{- if eq (get $labels "rescheduler.io/moves-pods") "true" -}}
{{- $name := get $labels "meta.helm.sh/release-name" | default (get $labels "app.kubernetes.io/instance") -}}
{{- $namespace := get $labels "meta.helm.sh/release-namespace" | default (first .subjects).namespace -}}
{{- if or (ne $name $.Release.Name) (ne $namespace $.Release.Namespace) -}}
{{- fail (printf "kube-rescheduler is installed already, as release %s in the namespace %s: two in one cluster would both move pods. Upgrade or uninstall that one, or set dryRun to true." $name $namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kube-rescheduler.check" -}}
{{- include "kube-rescheduler.alone" . -}}
{{- include "kube-rescheduler.ports" . -}}
{{- $elect := .Values.config.leaderElection | default dict -}}
{{- $web := .Values.config.web | default dict -}}
{{- if and (gt (int .Values.replicas) 1) (hasKey $elect "leaderElect") (not $elect.leaderElect) -}}
{{- fail "config.leaderElection.leaderElect is false, and replicas is above 1: all of them would move pods at once. Set replicas to 1, or leave leaderElect out." -}}
{{- end -}}
{{- if and $elect.resourceNamespace (ne $elect.resourceNamespace .Release.Namespace) -}}
{{- fail (printf "config.leaderElection.resourceNamespace is %s, but the release is in %s, where its rights and Services are: leave it out." $elect.resourceNamespace .Release.Namespace) -}}
{{- end -}}
{{- if and .Values.rbac.create (not .Values.rbac.webhook) (.Values.config.webhook).enabled -}}
{{- fail "config.webhook.enabled is true, but rbac.webhook is false, so the controller may not register the webhook: change one of them." -}}
{{- end -}}
{{- if and (ne (include "kube-rescheduler.webPort" .) "0") (or (hasPrefix "127." ($web.bindAddress | default "")) (eq ($web.bindAddress | default "") "::1")) -}}
{{- fail (printf "config.web.bindAddress is %s, where kubelet's probes do not reach it: leave it out, or set config.web.port to 0." $web.bindAddress) -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (has "--no-leader-elect" .Values.extraArgs) -}}
{{- fail "extraArgs has --no-leader-elect, and replicas is above 1: all of them would move pods at once. Set replicas to 1, or leave it out." -}}
{{- end -}}
{{- if has "--once" .Values.extraArgs -}}
{{- fail "extraArgs has --once, with which the controller ends after one cycle, and kubelet would restart it again and again: leave it out, or run `rescheduler run --once` in a CronJob." -}}
{{- end -}}
{{- range .Values.extraArgs -}}
{{- if or (eq . "--config") (hasPrefix "--config=" .) -}}
{{- fail (printf "extraArgs has %s, but the chart mounts the configuration: set config or existingConfigMap instead." .) -}}
{{- end -}}
{{- end -}}
{{- if has "--dry-run" .Values.extraArgs -}}
{{- fail "extraArgs has --dry-run, with which nothing is served, so kubelet's probes would fail: set dryRun to true instead." -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (eq (include "kube-rescheduler.webPort" .) "0") -}}
{{- fail "serviceMonitor.enabled is true, but config.web.port is 0, or dryRun is true, so there are no metrics to read: change one of them." -}}
{{- end -}}
{{- end -}}
