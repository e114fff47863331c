package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/server/running"
)

// Answers keeps the answers of calls with an Idempotency-Key. store.Idempotency is one.
type Answers interface {
	// Begin claims a key for a request. fresh: carry it out, then Finish or Forget. Else status and body are the first answer.
	// fault.Conflict while the first call is under way, or when the key was used for another request.
	Begin(ctx context.Context, userID, key, route, hash string) (status int, body []byte, fresh bool, err error)
	// Keep says that the call that claimed the key is still under way.
	Keep(ctx context.Context, userID, key string) error
	Finish(ctx context.Context, userID, key string, status int, body []byte) error
	Forget(ctx context.Context, userID, key string) error
	// Drop removes what was asked before a time (ms UTC) and says how many.
	Drop(ctx context.Context, before int64) (int64, error)
}

// Times of kept answers.
const (
	keepAnswers = 24 * time.Hour
	keepClaim   = 3 * time.Minute // how often a call under way renews its claim
)

// once carries a call out at most once for its key, and answers a repeated one with the first answer. A client that leaves does
// not stop it: whoever repeats the call gets its answer. A call that was refused frees its key.
func (s *Server) once(c echo.Context, call *rest.Call, key string, next echo.HandlerFunc) error {
	req := c.Request()
	if !plainKey(key) {
		return fault.New(fault.Invalid, "invalid_idempotency_key", "An Idempotency-Key has 1 to 200 visible ASCII characters.")
	}
	if running.WantsStream(req) {
		return fault.New(fault.Invalid, "idempotency_not_streamed", "A streamed answer cannot be replayed. Leave out Idempotency-Key, or request JSON.")
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	route := req.Method + " " + req.URL.Path
	user := call.Actor.User.ID
	status, answer, fresh, err := s.cfg.Answers.Begin(req.Context(), user, key, route, hex.EncodeToString(sum[:]))
	if err != nil {
		return err
	}
	if !fresh {
		c.Response().Header().Set("Idempotent-Replayed", "true")
		return c.Blob(status, "application/json", answer)
	}

	ctx, cancel := s.outlive(req.Context())
	defer cancel()
	stop := s.keepClaim(ctx, user, key)
	defer stop()
	req.Body = io.NopCloser(bytes.NewReader(body))
	c.SetRequest(req.WithContext(ctx))
	call.Request = c.Request()
	rec := &recorder{ResponseWriter: c.Response().Writer}
	c.Response().Writer = rec
	err = next(c)
	c.Response().Writer = rec.ResponseWriter
	c.SetRequest(req)

	after, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	if err == nil && rec.status >= 200 && rec.status < 300 {
		if ferr := s.cfg.Answers.Finish(after, user, key, rec.status, rec.body.Bytes()); ferr != nil {
			s.log.Error("the answer could not be stored for its idempotency key", "request_id", call.ID, "error", ferr)
		}
		return nil
	}
	// Whether an inner failure or a timeout came before or after the thing was done is not known: such a key stays claimed for a
	// while rather than let the thing happen twice.
	switch k := fault.KindOf(err); {
	case k == fault.Internal, k == fault.Timeout, errors.Is(err, context.Canceled):
	default:
		if ferr := s.cfg.Answers.Forget(after, user, key); ferr != nil {
			s.log.Error("the idempotency key could not be released", "request_id", call.ID, "error", ferr)
		}
	}
	return err
}

// outlive returns a context that goes on when the client leaves and ends with the server.
func (s *Server) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(s.life, func() { cancel(context.Cause(s.life)) })
	return out, func() { stop(); cancel(nil) }
}

// keepClaim renews a claim while its call is under way; the returned func ends that and waits for it.
func (s *Server) keepClaim(ctx context.Context, user, key string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(keepClaim)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				if err := s.cfg.Answers.Keep(ctx, user, key); err != nil && ctx.Err() == nil {
					s.log.Warn("the claim of an idempotency key could not be renewed", "error", err)
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

func plainKey(key string) bool {
	if len(key) > 200 {
		return false
	}
	return !strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' })
}

// recorder keeps a copy of the answer that passes through.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) {
	r.status = cmp.Or(r.status, status)
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.status = cmp.Or(r.status, http.StatusOK)
	r.body.Write(p)
	// Whether the client takes it does not matter here: a failed write must not make the call look failed.
	_, _ = r.ResponseWriter.Write(p)
	return len(p), nil
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
