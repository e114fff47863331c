package forge

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
)

// Limits of what is read from a forge.
const (
	maxAnswer   = 8 << 20   // of one answer
	maxKept     = 256 << 10 // of an answer cached for the next time
	maxKeptSum  = 16 << 20  // of all of them
	maxWords    = 600       // bytes of its message shown to people
	defaultWait = time.Minute
	longestWait = 2 * time.Hour
)

// answer is the error for a response other than 2xx. Every library's calls end in it, so that its message is parsed in one place.
type answer struct {
	Status int
	Words  string
}

func (a *answer) Error() string { return fmt.Sprintf("the Git host answered %d: %s", a.Status, a.Words) }

// Limited says that a forge limits requests.
type Limited struct{ Until time.Time }

func (l *Limited) Error() string {
	return "the Git host asks to wait until " + l.Until.UTC().Format(time.RFC3339)
}

var errTooLarge = errors.New("the Git host's answer is too large")

// wire is the HTTP transport to all forges: it bounds answers, caches them by ETag, and pauses where a forge asked for it. Cache and pause
// are per token and host: nobody sees what only another's token may see. Safe for concurrent use.
type wire struct {
	base http.RoundTripper
	now  func() time.Time
	salt [16]byte

	mu    sync.Mutex
	kept  map[keptKey]*kept
	sum   int
	until map[who]time.Time
}

// who identifies one token at one host, hashed.
type who struct {
	host  string
	token [sha256.Size]byte
}

type keptKey struct {
	who
	url string
}

type kept struct {
	etag   string
	header http.Header
	body   []byte
	used   time.Time
}

func newWire(base http.RoundTripper, now func() time.Time) *wire {
	w := &wire{base: base, now: now, kept: map[keptKey]*kept{}, until: map[who]time.Time{}}
	_, _ = rand.Read(w.salt[:]) // never fails
	return w
}

func (w *wire) who(r *http.Request) who {
	h := sha256.New()
	h.Write(w.salt[:])
	for _, name := range [...]string{"Authorization", "Private-Token", "Job-Token"} {
		_, _ = io.WriteString(h, r.Header.Get(name)+"\n")
	}
	return who{host: r.URL.Host, token: [sha256.Size]byte(h.Sum(nil))}
}

// RoundTrip returns a 2xx response with a body of bounded size, or an error.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	id := w.who(r)
	if until := w.waits(id); !until.IsZero() {
		return nil, &Limited{Until: until}
	}
	key := keptKey{id, r.URL.String()}
	var known *kept
	if r.Method == http.MethodGet {
		if known = w.find(key); known != nil {
			r = r.Clone(r.Context())
			r.Header.Set("If-None-Match", known.etag)
		}
	}
	resp, err := w.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	if len(body) > maxAnswer {
		return nil, errTooLarge
	}
	if until, asked := w.asksToWait(resp); asked {
		w.mu.Lock()
		w.until[id] = until
		w.mu.Unlock()
		if resp.StatusCode/100 != 2 && resp.StatusCode != http.StatusNotModified {
			return nil, &Limited{Until: until}
		}
	}
	switch {
	case resp.StatusCode == http.StatusNotModified && known != nil:
		resp.StatusCode, resp.Status = http.StatusOK, "200 OK"
		for name, values := range known.header { // pages are described in headers
			if resp.Header.Get(name) == "" {
				resp.Header[name] = values
			}
		}
		body = known.body
	case resp.StatusCode/100 != 2:
		return nil, &answer{Status: resp.StatusCode, Words: wordsOf(resp, body)}
	case r.Method == http.MethodGet && resp.Header.Get("ETag") != "":
		w.keep(key, resp, body)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

func (w *wire) waits(id who) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	until, ok := w.until[id]
	if ok && !w.now().Before(until) {
		delete(w.until, id)
		return time.Time{}
	}
	return until
}

func (w *wire) find(key keptKey) *kept {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.kept[key]
	if k != nil {
		k.used = w.now()
	}
	return k
}

func (w *wire) keep(key keptKey, resp *http.Response, body []byte) {
	if len(body) > maxKept {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.kept[key]; old != nil {
		w.sum -= len(old.body)
	}
	w.kept[key] = &kept{etag: resp.Header.Get("ETag"), header: resp.Header.Clone(), body: body, used: w.now()}
	w.sum += len(body)
	for w.sum > maxKeptSum {
		var oldest keptKey
		var at time.Time
		for k, v := range w.kept {
			if at.IsZero() || v.used.Before(at) {
				oldest, at = k, v.used
			}
		}
		w.sum -= len(w.kept[oldest].body)
		delete(w.kept, oldest)
	}
}

// asksToWait reads whether a forge wants no requests for a while: Retry-After, and the remaining budget of requests
// (docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api; docs.gitlab.com/administration/settings/user_and_ip_rate_limits).
func (w *wire) asksToWait(resp *http.Response) (time.Time, bool) {
	now := w.now()
	left, reset := resp.Header.Get("X-RateLimit-Remaining"), resp.Header.Get("X-RateLimit-Reset")
	if left == "" {
		left, reset = resp.Header.Get("RateLimit-Remaining"), resp.Header.Get("RateLimit-Reset")
	}
	after := resp.Header.Get("Retry-After")
	refused := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusForbidden && (after != "" || left == "0") ||
		resp.StatusCode == http.StatusServiceUnavailable && after != ""
	if !refused && (left != "0" || reset == "") {
		return time.Time{}, false
	}
	until := now.Add(defaultWait)
	if s, err := strconv.ParseInt(after, 10, 64); err == nil && s >= 0 {
		until = now.Add(time.Duration(min(s, int64(longestWait/time.Second))) * time.Second)
	} else if t, err := http.ParseTime(after); err == nil {
		until = t
	} else if s, err := strconv.ParseInt(reset, 10, 64); err == nil && left == "0" {
		until = time.Unix(s, 0)
	}
	if latest := now.Add(longestWait); until.After(latest) {
		until = latest
	}
	return until, until.After(now)
}

// wordsOf finds the error message of a forge, in the formats the four use.
func wordsOf(resp *http.Response, body []byte) string {
	if at := resp.Header.Get("Location"); resp.StatusCode/100 == 3 && at != "" {
		return clean("it points to "+at, maxWords)
	}
	var said struct {
		Message  any    `json:"message"`
		Error    any    `json:"error"`
		Reported string `json:"error_description"`
		Errors   []any  `json:"errors"`
	}
	if json.Unmarshal(body, &said) != nil {
		return clean(strings.TrimSpace(http.StatusText(resp.StatusCode)), maxWords)
	}
	var out []string
	var add func(v any)
	add = func(v any) {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case []any:
			for _, e := range v {
				add(e)
			}
		case map[string]any:
			if m, ok := v["message"].(string); ok {
				add(m)
				return
			}
			if f, ok := v["field"].(string); ok {
				code, _ := v["code"].(string)
				add(strings.TrimSpace(f + " " + code))
				return
			}
			for k, e := range v { // GitLab names the field
				if l, ok := e.([]any); ok && len(l) > 0 {
					add(fmt.Sprintf("%s %v", k, l[0]))
				}
			}
		}
	}
	add(said.Message)
	add(said.Error)
	if said.Reported != "" {
		add(said.Reported)
	}
	add(said.Errors)
	return clean(strings.Join(out, ". "), maxWords)
}

// fail words a failed call for the user. doing is the operation, as in "Opening the pull request".
func (p Place) fail(err error, doing string) error {
	if err == nil {
		return nil
	}
	if fault.CodeOf(err) != "" {
		return err
	}
	if l, ok := errors.AsType[*Limited](err); ok {
		return fault.Wrap(err, fault.RateLimited, "forge_busy", "%s limits requests for now. Try again after %s UTC.", p.Host, l.Until.UTC().Format("15:04")).With("until", l.Until.UnixMilli())
	}
	a, ok := errors.AsType[*answer](err)
	if !ok {
		var syntax *json.SyntaxError
		var shape *json.UnmarshalTypeError
		if errors.As(err, &syntax) || errors.As(err, &shape) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, errTooLarge) || errors.Is(err, errAnswer) {
			return fault.Wrap(err, fault.Unavailable, "forge_answer_wrong", "%s: what %s answered is not what %s says. Check the kind and the API's address in the project's settings.", doing, p.Host, p.Kind.Name())
		}
		return fault.Wrap(err, fault.Unavailable, "forge_unreachable", "%s: %s could not be reached: %s.", doing, p.Host, egress.Words(err))
	}
	words := ""
	if a.Words != "" {
		words = " It said: " + a.Words
	}
	switch {
	case a.Status == http.StatusUnauthorized:
		return fault.Wrap(err, fault.Conflict, "forge_token_refused", "%s does not accept the token. Enter a valid one as git credential for %s.%s", p.Host, tokenHost(p.APIURL), words)
	case a.Status == http.StatusForbidden:
		return fault.Wrap(err, fault.Conflict, "forge_not_allowed", "%s: the token may not do that on %s. %s%s", doing, p.Host, scopesOf(p.Kind), words)
	case a.Status == http.StatusNotFound, a.Status == http.StatusGone:
		return fault.Wrap(err, fault.Conflict, "forge_not_found", "%s: %s shows this token no repository %s, or no such %s in it. %s", doing, p.Host, p.Repository, p.Kind.Request(), scopesOf(p.Kind))
	case a.Status/100 == 3:
		return fault.Wrap(err, fault.Conflict, "forge_moved", "%s: the repository %s is no longer at %s. Set its name in the project's settings.%s", doing, p.Repository, p.Host, words)
	case a.Status == http.StatusMethodNotAllowed, a.Status == http.StatusConflict, a.Status == http.StatusPreconditionFailed, a.Status == http.StatusNotAcceptable,
		a.Status == http.StatusUnprocessableEntity, a.Status == http.StatusBadRequest, a.Status == http.StatusLocked:
		return fault.Wrap(err, fault.Conflict, "forge_refused", "%s: %s refused.%s", doing, p.Host, words)
	}
	return fault.Wrap(err, fault.Unavailable, "forge_unreachable", "%s: %s failed with %d. Try again in a moment.%s", doing, p.Host, a.Status, words)
}

// errAnswer is the cause when an answer is well formed but makes no sense.
var errAnswer = errors.New("the Git host's answer lacks required data")

// scopesOf says which scopes a token needs.
func scopesOf(k Kind) string {
	switch k {
	case GitHub:
		return "A classic token needs the scope repo; a fine-grained one Contents and Pull requests (read and write), Commit statuses and Checks (read)."
	case GitLab:
		return "The token needs the scope api, and the role Developer or higher."
	}
	return "The token needs write for repository, and read for issue and user."
}
