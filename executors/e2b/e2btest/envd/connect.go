package envd

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// Connect's error codes, and the HTTP status of each in an unary answer.
var statusOf = map[string]int{
	"invalid_argument": http.StatusBadRequest, "not_found": http.StatusNotFound, "already_exists": http.StatusConflict,
	"unauthenticated": http.StatusUnauthorized, "failed_precondition": http.StatusBadRequest, "internal": http.StatusInternalServerError,
	"unimplemented": http.StatusNotImplemented, "unavailable": http.StatusServiceUnavailable, "deadline_exceeded": http.StatusGatewayTimeout,
	"unknown": http.StatusInternalServerError, "canceled": 499, "resource_exhausted": http.StatusTooManyRequests,
}

type rpcError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Code + ": " + e.Message }

func refuse(code, format string, args ...any) error {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, args...)}
}

func asRPC(err error) *rpcError {
	var e *rpcError
	if errors.As(err, &e) {
		return e
	}
	return &rpcError{Code: "unknown", Message: err.Error()}
}

const (
	maxMessage = 64 << 20 // bytes
	flagGzip   = 1
	flagEnd    = 2
)

// decode reads one JSON message.
func decode(b []byte, v any) error {
	if err := Strict(b, v); err != nil {
		return refuse("invalid_argument", "unmarshal message: %v", err)
	}
	return nil
}

// begin checks what every call must bring. It answers false when it has refused.
func begin(w http.ResponseWriter, r *http.Request, contentType string) bool {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return false
	}
	got, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if got != contentType {
		w.Header().Set("Accept-Post", contentType)
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return false
	}
	if v := r.Header.Get("Connect-Protocol-Version"); v != "" && v != "1" {
		writeJSON(w, http.StatusBadRequest, &rpcError{"invalid_argument", fmt.Sprintf("connect-protocol-version must be \"1\": got %q", v)})
		return false
	}
	return true
}

// withDeadline is the request's context as Connect-Timeout-Ms bounds it.
func withDeadline(r *http.Request) (context.Context, context.CancelFunc, time.Duration, error) {
	h := r.Header.Get("Connect-Timeout-Ms")
	if h == "" {
		ctx, cancel := context.WithCancel(r.Context())
		return ctx, cancel, 0, nil
	}
	ms, err := strconv.ParseInt(h, 10, 64)
	if err != nil || len(h) > 10 || ms < 0 {
		return nil, nil, 0, refuse("invalid_argument", "parse timeout: protocol error: timeout %q", h)
	}
	d := time.Duration(ms) * time.Millisecond
	ctx, cancel := context.WithTimeout(r.Context(), d)
	return ctx, cancel, d, nil
}

// unary serves a call of one message with one answer.
func unary[In any](mux *http.ServeMux, s *server, name string, fn func(ctx context.Context, u *account, in *In) (any, error)) {
	mux.HandleFunc("/"+name, func(w http.ResponseWriter, r *http.Request) {
		if !begin(w, r, "application/json") {
			return
		}
		out, err := func() (any, error) {
			ctx, cancel, _, err := withDeadline(r)
			if err != nil {
				return nil, err
			}
			defer cancel()
			if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
				return nil, refuse("unimplemented", "unknown compression %q", enc)
			}
			b, err := io.ReadAll(io.LimitReader(r.Body, maxMessage+1))
			if err != nil {
				return nil, refuse("canceled", "%v", err)
			}
			if len(b) > maxMessage {
				return nil, refuse("resource_exhausted", "message is too large")
			}
			var in In
			if err := decode(b, &in); err != nil {
				return nil, err
			}
			u, err := s.user(r)
			if err != nil {
				return nil, err
			}
			return fn(ctx, u, &in)
		}()
		if err != nil {
			e := asRPC(err)
			writeJSON(w, statusOf[e.Code], e)
			return
		}
		writeJSON(w, http.StatusOK, out)
	})
}

// stream is the answer of a streaming call.
type stream struct {
	w     http.ResponseWriter
	flush http.Flusher
}

func (st *stream) frame(flags byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	head := make([]byte, 5, 5+len(b))
	head[0] = flags
	binary.BigEndian.PutUint32(head[1:], uint32(len(b)))
	if _, err := st.w.Write(append(head, b...)); err != nil {
		return err
	}
	st.flush.Flush()
	return nil
}

func (st *stream) send(v any) error { return st.frame(0, v) }

// end closes the stream: the HTTP status was 200 whatever came of it.
func (st *stream) end(err error) {
	if err == nil {
		_ = st.frame(flagEnd, struct{}{})
		return
	}
	_ = st.frame(flagEnd, map[string]any{"error": asRPC(err), "metadata": map[string]any{}})
}

// readFrame reads one message of a stream. io.EOF at its end.
func readFrame(r io.Reader) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, refuse("invalid_argument", "protocol error: incomplete envelope: %v", err)
	}
	switch {
	case head[0]&flagGzip != 0:
		return nil, refuse("internal", "protocol error: sent compressed message without compression support")
	case head[0]&flagEnd != 0 || head[0] != 0:
		return nil, refuse("invalid_argument", "protocol error: invalid envelope flags %d", head[0])
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxMessage {
		return nil, refuse("resource_exhausted", "message size %d exceeds the limit", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, refuse("invalid_argument", "protocol error: promised %d bytes in enveloped message: %v", n, err)
	}
	return b, nil
}

// serverStream serves a call of exactly one message with many answers.
func serverStream[In any](mux *http.ServeMux, s *server, name string,
	fn func(ctx context.Context, r *http.Request, u *account, in *In, deadline time.Duration, out *stream) error) {
	mux.HandleFunc("/"+name, func(w http.ResponseWriter, r *http.Request) {
		streaming(w, r, func(out *stream) error {
			ctx, cancel, deadline, err := withDeadline(r)
			if err != nil {
				return err
			}
			defer cancel()
			b, err := readFrame(r.Body)
			if errors.Is(err, io.EOF) {
				return refuse("unimplemented", "unary request has zero messages")
			}
			if err != nil {
				return err
			}
			if _, err := readFrame(r.Body); !errors.Is(err, io.EOF) {
				return refuse("unimplemented", "unary request has multiple messages")
			}
			var in In
			if err := decode(b, &in); err != nil {
				return err
			}
			u, err := s.user(r)
			if err != nil {
				return err
			}
			err = fn(ctx, r, u, &in, deadline, out)
			if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return refuse("deadline_exceeded", "context deadline exceeded")
			}
			return err
		})
	})
}

// clientStream serves a call of many messages with one answer.
func clientStream(mux *http.ServeMux, s *server, name string, fn func(ctx context.Context, u *account, next func() ([]byte, error)) (any, error)) {
	mux.HandleFunc("/"+name, func(w http.ResponseWriter, r *http.Request) {
		streaming(w, r, func(out *stream) error {
			ctx, cancel, _, err := withDeadline(r)
			if err != nil {
				return err
			}
			defer cancel()
			u, err := s.user(r)
			if err != nil {
				return err
			}
			answer, err := fn(ctx, u, func() ([]byte, error) { return readFrame(r.Body) })
			if err != nil {
				return err
			}
			return out.send(answer)
		})
	})
}

func streaming(w http.ResponseWriter, r *http.Request, fn func(out *stream) error) {
	if !begin(w, r, "application/connect+json") {
		return
	}
	flush, ok := w.(http.Flusher)
	if !ok {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if enc := r.Header.Get("Connect-Content-Encoding"); enc != "" && enc != "identity" {
		(&stream{w, flush}).end(refuse("unimplemented", "unknown compression %q", enc))
		return
	}
	w.Header().Set("Content-Type", "application/connect+json")
	_ = http.NewResponseController(w).EnableFullDuplex()
	w.WriteHeader(http.StatusOK)
	out := &stream{w, flush}
	out.end(fn(out))
}
