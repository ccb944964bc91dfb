{{- define "noctule.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The name of all objects. Two releases in one namespace have different names. */}}
{{- define "noctule.fullname" -}}
{{- $name := include "noctule.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "noctule.selectorLabels" -}}
app.kubernetes.io/name: {{ include "noctule.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "noctule.labels" -}}
{{ include "noctule.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "noctule.metadata" -}}
name: {{ include "noctule.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "noctule.labels" . | nindent 2 }}
{{- end }}

{{- /* The value of the annotation that Kubernetes before 1.30 reads instead of appArmorProfile. */}}
{{- define "noctule.appArmorAnnotation" -}}
{{- $profile := .Values.appArmorProfile }}
{{- if eq $profile.type "Localhost" -}}
localhost/{{ $profile.localhostProfile }}
{{- else if eq $profile.type "RuntimeDefault" -}}
runtime/default
{{- else -}}
unconfined
{{- end }}
{{- end }}

{{- /* The configuration. A second table [host] would be an error, so it must not be in .Values.config. */}}
{{- define "noctule.config" -}}
{{- $config := .Values.config | trimSuffix "\n" }}
{{- if .Values.energy.enabled }}
{{- if regexMatch "(?m)^\\s*\\[host\\]" $config }}
{{- fail "energy.enabled sets host.sys: remove [host] from config, or mount /sys with extraVolumes" }}
{{- end }}
{{- $config = printf "%s\n[host]\nsys = \"/host/sys\"" $config }}
{{- end }}
{{- $config }}
{{- end }}
