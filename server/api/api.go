// Package api is the public HTTP API: openapi.yaml, the source of truth, and the Go types and strict server generated from
// it. It imports no other package of Parawork.
package api

import (
	_ "embed"
	"encoding/json"
)

// Spec is openapi.yaml as served to clients.
//
//go:embed openapi.yaml
var Spec []byte

//go:generate go tool oapi-codegen -config oapi-codegen.yaml openapi.yaml

// Maybe is a number in a change: left out it stays as it is, null is without bound.
type Maybe struct {
	Said  bool
	Value *int64
}

// UnmarshalJSON is called for null, too.
func (m *Maybe) UnmarshalJSON(b []byte) error {
	m.Said = true
	return json.Unmarshal(b, &m.Value)
}

// MarshalJSON writes what was said.
func (m Maybe) MarshalJSON() ([]byte, error) { return json.Marshal(m.Value) }

// IsZero reports whether nothing was said.
func (m Maybe) IsZero() bool { return !m.Said }

// Put puts what was said in a value's place.
func (m Maybe) Put(to **int64) {
	if m.Said {
		*to = m.Value
	}
}
