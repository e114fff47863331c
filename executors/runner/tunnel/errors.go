package tunnel

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

const maxError = 64 << 10

// ReadError reads a machine's error response, at the server: it validates it like everything a machine sends.
func ReadError(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	var e wire.Error
	if err != nil || json.Unmarshal(b, &e) != nil || !wire.Known(fault.Kind(e.Kind)) || !word(e.Code) || e.Message == "" {
		return fault.New(fault.Unavailable, wire.CodeUnavailable, "The machine sent an invalid answer (%d).", resp.StatusCode)
	}
	out := fault.New(fault.Kind(e.Kind), e.Code, "%s", clean(e.Message))
	out.Details = e.Details
	return out
}

// word reports whether s can be a stable code.
func word(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
