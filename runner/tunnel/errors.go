package tunnel

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/runner/wire"
)

const maxError = 64 << 10

// statuses are of the kinds an answer's error can have; the others are a bad gateway's.
var statuses = map[fault.Kind]int{
	fault.Invalid: 400, fault.Unauthorized: 401, fault.Forbidden: 403, fault.NotFound: 404, fault.Conflict: 409, fault.Gone: 410,
	fault.Precondition: 412, fault.TooLarge: 413, fault.RateLimited: 429, fault.Quota: 402, fault.Unavailable: 503, fault.Unsupported: 501,
	fault.Timeout: 504, fault.DiskFull: 507, fault.Internal: 500,
}

// WriteError answers with an error, at the machine: faults as they are, others as internal ones whose text stays here.
func WriteError(w http.ResponseWriter, err error) {
	e := wire.Error{Kind: string(fault.KindOf(err)), Code: fault.CodeOf(err)}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		e.Message, e.Details = f.Message, f.Details
	} else {
		e.Code, e.Message = "internal", "Something went wrong on the machine. Its own log says what."
	}
	status := statuses[fault.Kind(e.Kind)]
	if status == 0 {
		status = http.StatusInternalServerError
	}
	b, merr := json.Marshal(e)
	if merr != nil {
		b = []byte(`{"kind":"internal","code":"internal","message":"The machine's error cannot be written."}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// ReadError reads an answer that is an error, at the server: it is checked like everything a machine says.
func ReadError(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	var e wire.Error
	if err != nil || json.Unmarshal(b, &e) != nil || statuses[fault.Kind(e.Kind)] == 0 || !word(e.Code) || e.Message == "" {
		return fault.New(fault.Unavailable, wire.CodeUnavailable, "The machine answered what cannot be right (%d).", resp.StatusCode)
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
