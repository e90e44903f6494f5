// Package crd holds the CustomResourceDefinitions for programs that validate objects without an API server.
package crd

import _ "embed"

// WorkPullingFlow and WorkerPool are the generated definitions, as YAML.
var (
	//go:embed bases/workpulling.dev_workpullingflows.yaml
	WorkPullingFlow []byte
	//go:embed bases/workpulling.dev_workerpools.yaml
	WorkerPool []byte
)
