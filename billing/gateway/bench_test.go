package gateway

import (
	"strings"
	"testing"
)

// BenchmarkLook reads a request as large as what Claude Code asks with its first prompt.
func BenchmarkLook(b *testing.B) {
	tool := `{"name":"Tool","description":"` + strings.Repeat("words of it, ", 200) + `","input_schema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"}}}},`
	body := []byte(`{"model":"claude-opus-4-8","stream":true,"tools":[` + strings.TrimSuffix(strings.Repeat(tool, 30), ",") + `]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := look(body); err != nil {
			b.Fatal(err)
		}
	}
}
