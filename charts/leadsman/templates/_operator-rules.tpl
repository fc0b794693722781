{{/* What the operator does, and nothing else. It never deletes a pod, reads a Secret or touches a node. */}}
{{- define "leadsman.operatorRules" -}}
- apiGroups: [leadsman.dev]
  resources: [capabilities, workerpools]
  verbs: [list, watch]
- apiGroups: [leadsman.dev]
  resources: [capabilities/status, workerpools/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch]
- apiGroups: [apps]
  resources: [deployments/scale]
  verbs: [patch]
# The ReplicaSet's own status is the evidence that it has seen which workers are fenced.
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [list, watch]
# Patch: the deletion cost and the do-not-disrupt marks of busy workers.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}

{{- define "leadsman.electionRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update]
{{- end }}
