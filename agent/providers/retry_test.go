package providers_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/agent/providers"
)

// scripted fails with one error after the other, and then answers.
type scripted struct {
	errs  []error
	asked []time.Time
}

func (s *scripted) Stream(context.Context, providers.Request) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) {
		n := len(s.asked)
		s.asked = append(s.asked, time.Now())
		if !yield(providers.Event{Kind: providers.TextDelta, Text: "Hi"}, nil) {
			return
		}
		if n < len(s.errs) {
			yield(providers.Event{}, s.errs[n])
			return
		}
		yield(providers.Event{Kind: providers.Done, Stop: providers.StopEndTurn}, nil)
	}
}

func kind(k providers.ErrorKind, after time.Duration) error {
	return &providers.Error{Kind: k, RetryAfter: after, Message: string(k)}
}

func repeat(err error, n int) (out []error) {
	for range n {
		out = append(out, err)
	}
	return out
}

func TestRetries(t *testing.T) {
	t.Parallel()
	other := errors.New("another error")
	for name, test := range map[string]struct {
		errs        []error
		policy      providers.Policy
		tries       int
		least, most time.Duration // in all
		ok          bool
	}{
		"none":                    {nil, providers.Policy{}, 1, 0, 0, true},
		"each kind that passes":   {[]error{kind(providers.ErrCut, 0), kind(providers.ErrStalled, 0), kind(providers.ErrOverloaded, 0), kind(providers.ErrUnavailable, 0), kind(providers.ErrRateLimited, 0)}, providers.Policy{}, 6, 15 * time.Second, 32 * time.Second, true},
		"as long as asked":        {[]error{kind(providers.ErrRateLimited, 3*time.Minute)}, providers.Policy{}, 2, 3 * time.Minute, 3*time.Minute + time.Second, true},
		"too long asked":          {[]error{kind(providers.ErrRateLimited, time.Hour)}, providers.Policy{}, 1, 0, 0, false},
		"too often":               {repeat(kind(providers.ErrOverloaded, 0), 9), providers.Policy{}, 8, 63 * time.Second, 124 * time.Second, false},
		"too long in all":         {repeat(kind(providers.ErrOverloaded, 4*time.Minute), 9), providers.Policy{}, 3, 8 * time.Minute, 8*time.Minute + 2*time.Second, false},
		"the longest wait":        {repeat(kind(providers.ErrCut, 0), 30), providers.Policy{MaxTries: 31, Longest: 2 * time.Second}, 31, 29 * time.Second, 60 * time.Second, true},
		"an invalid request":      {[]error{kind(providers.ErrInvalidRequest, 0)}, providers.Policy{}, 1, 0, 0, false},
		"an unauthorized one":     {[]error{kind(providers.ErrUnauthorized, 0)}, providers.Policy{}, 1, 0, 0, false},
		"no budget":               {[]error{kind(providers.ErrBudget, time.Second)}, providers.Policy{}, 1, 0, 0, false},
		"refused":                 {[]error{kind(providers.ErrRefused, 0)}, providers.Policy{}, 1, 0, 0, false},
		"too long":                {[]error{kind(providers.ErrContextTooLong, 0)}, providers.Policy{}, 1, 0, 0, false},
		"an error of another one": {[]error{other}, providers.Policy{}, 1, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &scripted{errs: test.errs}
				start := time.Now()
				got := ask(t.Context(), t, providers.Retrying(p, test.policy), hello())
				took := time.Since(start)
				if (got.Err == nil) != test.ok || len(p.asked) != test.tries || took < test.least || took > test.most {
					t.Errorf("%d tries in %s: %v", len(p.asked), took, got.Err)
				}
				if !test.ok && !errors.Is(got.Err, test.errs[test.tries-1]) {
					t.Errorf("error %v", got.Err)
				}
				if got.Text != "Hi" || got.Retries != test.tries-1 { // of the last try only
					t.Errorf("text %q after %d retries", got.Text, got.Retries)
				}
			})
		})
	}
}

// Viewers hear of a retry before the wait, and the context ends the wait at once.
func TestRetryEndsWithContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		var retry providers.Event
		var last error
		for e, err := range providers.Retrying(&scripted{errs: repeat(kind(providers.ErrOverloaded, time.Minute), 3)}, providers.Policy{}).Stream(ctx, hello()) {
			if e.Kind == providers.Retry {
				retry = e
				if time.Since(start) != 0 {
					t.Error("the event came after the wait")
				}
			}
			last = err
		}
		if !errors.Is(last, context.DeadlineExceeded) || time.Since(start) != 10*time.Second || retry.Wait < time.Minute || retry.Error == nil || retry.Error.Kind != providers.ErrOverloaded {
			t.Errorf("ended after %s with %v; event %+v", time.Since(start), last, retry)
		}
	})
}

// Over a real connection: refused, overloaded in the middle, cut inside a call, and then whole.
func TestRetriesOverHTTP(t *testing.T) {
	t.Parallel()
	for _, a := range apis {
		n := 0
		p := a.serve(t, func(w http.ResponseWriter, _ *http.Request) {
			n++
			switch n {
			case 1:
				w.Header().Set("Retry-After", "0.01")
				w.WriteHeader(http.StatusTooManyRequests)
			case 2:
				_, _ = io.WriteString(w, whole[a.name][:900]+"\n\n")
			case 3:
				at := strings.LastIndex(whole[a.name], `a.txt`)
				_, _ = io.WriteString(w, whole[a.name][:max(at, strings.Index(whole[a.name], `"a`))])
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			default:
				_, _ = io.WriteString(w, whole[a.name])
			}
		})
		got := ask(t.Context(), t, providers.Retrying(p, providers.Policy{First: time.Millisecond}), hello())
		checkWhole(t, a, got)
		if got.Retries != 3 {
			t.Errorf("%s: %d retries", a.name, got.Retries)
		}
	}
}
