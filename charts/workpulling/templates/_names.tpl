{{/* Cut to 40 characters, so that every suffix fits into 63. */}}
{{- define "workpulling.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Cluster-scoped objects bear the namespace too, so that two releases of one name never meet. */}}
{{- define "workpulling.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "workpulling.fullname" .) -}}
{{- end -}}

{{- define "workpulling.tokenReviewer" -}}
{{- include "workpulling.clusterName" . }}:token-reviewer
{{- end -}}

{{- define "workpulling.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "workpulling.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name must be set where serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "workpulling.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* The name of the Service of the metrics, which is the one in their certificate. */}}
{{- define "workpulling.metricsHost" -}}
{{- printf "%s-metrics.%s.svc" (include "workpulling.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- define "workpulling.labels" -}}
{{ include "workpulling.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "workpulling.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}
