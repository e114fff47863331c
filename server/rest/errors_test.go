package rest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/internal/fault"
)

func TestTranslate(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial /run/secret.sock: password=hunter2")
	for name, tc := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"invalid":            {fault.New(fault.Invalid, "bad_name", "Bad."), 400, "bad_name"},
		"wrapped":            {fmt.Errorf("doing: %w", fault.New(fault.Conflict, "busy", "Busy.")), 409, "busy"},
		"precondition":       {fault.New(fault.Precondition, "moved_on", "x"), 412, "moved_on"},
		"quota":              {fault.New(fault.Quota, "quota_used_up", "x"), 402, "quota_used_up"},
		"gone":               {fault.New(fault.Gone, "gone", "x"), 410, "gone"},
		"disk":               {fault.New(fault.DiskFull, "disk_full", "x"), 507, "disk_full"},
		"without a code":     {fault.New(fault.Unavailable, "", "x"), 503, "unavailable"},
		"an unknown kind":    {fault.New("strange", "strange", "x"), 500, "strange"},
		"anything":           {secret, 500, "internal"},
		"a cause":            {fault.Wrap(secret, fault.Unavailable, "database_unreachable", "No."), 503, "database_unreachable"},
		"deadline":           {fmt.Errorf("x: %w", context.DeadlineExceeded), 504, "timeout"},
		"unsupported":        {fmt.Errorf("x: %w", errors.ErrUnsupported), 501, "unsupported"},
		"no room":            {fmt.Errorf("x: %w", &fs.PathError{Op: "write", Path: "/secret", Err: syscall.ENOSPC}), 507, "disk_full"},
		"echo 404":           {echo.ErrNotFound, 404, "route_not_found"},
		"echo 405":           {echo.ErrMethodNotAllowed, 405, "method_not_allowed"},
		"echo 413":           {echo.ErrStatusRequestEntityTooLarge, 413, "body_too_large"},
		"a bad parameter":    {echo.NewHTTPError(400, "Invalid format for parameter limit: x"), 400, "invalid_parameter"},
		"echo 500":           {echo.NewHTTPError(500, secret.Error()), 500, "internal"},
		"max bytes":          {fmt.Errorf("reading: %w", &http.MaxBytesError{Limit: 1}), 413, "body_too_large"},
		"canceled elsewhere": {context.Canceled, 503, "interrupted"},
	} {
		p := Translate(tc.err)
		if p.Status != tc.status || p.Body.Code != tc.code {
			t.Errorf("%s: %d %s, want %d %s", name, p.Status, p.Body.Code, tc.status, tc.code)
		}
		if p.Body.Message == "" || strings.Contains(p.Body.Message, "hunter2") {
			t.Errorf("%s says %q", name, p.Body.Message)
		}
	}
	for _, k := range []fault.Kind{fault.Invalid, fault.Unauthorized, fault.Forbidden, fault.NotFound, fault.Conflict, fault.Precondition, fault.TooLarge,
		fault.RateLimited, fault.Quota, fault.Unavailable, fault.Gone, fault.Unsupported, fault.Timeout, fault.DiskFull, fault.Internal} {
		if StatusOf[k] == 0 {
			t.Errorf("kind %s has no status", k)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	Translate(fault.New(fault.RateLimited, "too_many_attempts", "Wait.").With("retry_after_ms", int64(12_300))).Write(rec, "req_1", false)
	if rec.Code != 429 || rec.Header().Get("Retry-After") != "13" {
		t.Errorf("%d, Retry-After %q, want 429 and 13", rec.Code, rec.Header().Get("Retry-After"))
	}
	rec = httptest.NewRecorder()
	Translate(ErrSignedOut).Write(rec, "req_1", false)
	if rec.Header().Get("WWW-Authenticate") == "" {
		t.Error("401 without WWW-Authenticate")
	}
}
