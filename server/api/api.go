// Package api is the public HTTP API: openapi.yaml, the source of truth, and the Go types and strict server generated from
// it. It knows nothing of the rooms.
package api

import _ "embed"

// Spec is openapi.yaml as served to clients.
//
//go:embed openapi.yaml
var Spec []byte

//go:generate go tool oapi-codegen -config oapi-codegen.yaml openapi.yaml
