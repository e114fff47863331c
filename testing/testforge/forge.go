// Package testforge is GitHub, GitLab, Gitea or Forgejo for tests: what their documentation says of pull requests, over HTTPS, strictly,
// with real repositories behind git's smart HTTP. What it is asked otherwise than documented it refuses as they do.
package testforge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The kinds.
const (
	GitHub  = "github"
	GitLab  = "gitlab"
	Gitea   = "gitea"
	Forgejo = "forgejo"
)

// Token is what somebody shows. Scopes are what each forge's tokens have: GitHub repo, checks; GitLab api, read_api; Gitea write:repository,
// read:repository.
type Token struct {
	Value, User string
	Scopes      []string
}

// Check is a status of a commit; on GitHub Run makes it a check run, whose State is queued, in_progress or a conclusion.
type Check struct {
	Commit, Name, State, URL, Text string
	Run, AllowFailure              bool
}

// Review is what somebody said: APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED in GitHub's words.
type Review struct{ User, State string }

// Pull is a pull request.
type Pull struct {
	Number             int64
	Title, Body        string
	Head, Base, Author string
	Draft              bool
	State              string // open, closed, merged
	Sha, MergedSha     string // of a closed one
	MergedAt           time.Time
	Reviews            []Review
	Talks              []*Talk
	Requested          []string // reviewers who were asked again
	Auto               bool     // the forge merges it by itself
	Blocked            string   // in the forge's own word: blocked, not_approved

	known string // what mergeable was worked out for: it takes GitHub a second question
}

// Forge is one. Its own fields are guarded by its lock; tests go through its methods.
type Forge struct {
	Kind string
	URL  string
	root string

	server *httptest.Server
	back   *cgi.Handler
	mux    *http.ServeMux

	mu       sync.Mutex
	tokens   []Token
	pulls    map[string][]*Pull // by repository
	checks   map[string][]Check
	asked    []string
	turn     func(w http.ResponseWriter, r *http.Request) bool
	left     int // requests; -1 = as many as one likes
	reset    time.Time
	clock    func() time.Time
	issues   map[string][]*Issue // by repository
	labels   map[string][]string // by repository; Gitea's id is the place in the list
	logs     map[string]string   // by check
	writers  []string
	comments int64           // that there were
	gone     map[string]bool // issues that were deleted, as repository#number
}

// New serves a forge whose repositories lie below root. Close ends it.
func New(kind, root string) (*Forge, error) {
	path, err := exec.CommandContext(context.Background(), "git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("looking for git: %w", err)
	}
	f := &Forge{Kind: kind, root: root, pulls: map[string][]*Pull{}, checks: map[string][]Check{}, left: -1, clock: time.Now, mux: http.NewServeMux(),
		issues: map[string][]*Issue{}, labels: map[string][]string{}, gone: map[string]bool{}, logs: map[string]string{}}
	f.back = &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Dir: root, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_COUNT=2",
			"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_KEY_1=http.receivepack", "GIT_CONFIG_VALUE_1=true"}}
	switch kind {
	case GitHub:
		f.github()
	case GitLab:
		f.gitlab()
	case Gitea, Forgejo:
		f.gitea()
	default:
		return nil, fmt.Errorf("there is no forge %q", kind)
	}
	f.server = httptest.NewUnstartedServer(f)
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.server.StartTLS()
	f.URL = f.server.URL
	return f, nil
}

// Close ends it.
func (f *Forge) Close() { f.server.CloseClientConnections(); f.server.Close() }

// Host is where it is.
func (f *Forge) Host() string { return strings.TrimPrefix(f.URL, "https://") }

// API is where programs ask it.
func (f *Forge) API() string {
	return f.URL + map[string]string{GitHub: "/api/v3", GitLab: "/api/v4", Gitea: "/api/v1", Forgejo: "/api/v1"}[f.Kind]
}

// Certificate is what who asks must trust, as PEM.
func (f *Forge) Certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
}

// Transport trusts it.
func (f *Forge) Transport() http.RoundTripper { return f.server.Client().Transport }

// Know lets somebody in.
func (f *Forge) Know(t Token) { f.mu.Lock(); defer f.mu.Unlock(); f.tokens = append(f.tokens, t) }

// Forget takes a token back.
func (f *Forge) Forget(value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokens = slices.DeleteFunc(f.tokens, func(t Token) bool { return t.Value == value })
}

// Behave lets turn answer in the forge's place where it returns true; nil ends that.
func (f *Forge) Behave(turn func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn = turn
}

// Budget sets how many requests are left, and when there are more.
func (f *Forge) Budget(left int, reset time.Time, clock func() time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.reset, f.clock = left, reset, clock
}

// Asked is what it was asked, each as "METHOD path status".
func (f *Forge) Asked() []string { f.mu.Lock(); defer f.mu.Unlock(); return slices.Clone(f.asked) }

// Say sets how a commit does.
func (f *Forge) Say(repo string, c Check) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.DeleteFunc(f.checks[repo], func(o Check) bool { return o.Commit == c.Commit && o.Name == c.Name && o.Run == c.Run })
	f.checks[repo] = append(all, c)
}

// Edit changes a pull request as people there do.
func (f *Forge) Edit(repo string, number int64, fn func(*Pull)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pull(repo, number)
	if p == nil {
		return fmt.Errorf("%s has no pull request %d", repo, number)
	}
	fn(p)
	return nil
}

// Pulls are the pull requests of a repository.
func (f *Forge) Pulls(repo string) []Pull {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Pull
	for _, p := range f.pulls[repo] {
		c := *p
		c.Sha = f.sha(repo, p)
		out = append(out, c)
	}
	return out
}

// Merge merges as somebody there does.
func (f *Forge) Merge(repo string, number int64, strategy string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pull(repo, number)
	if p == nil {
		return fmt.Errorf("%s has no pull request %d", repo, number)
	}
	return f.merge(repo, p, strategy)
}

// MakeRepo makes an empty repository of a name such as acme/app, and returns where its files lie.
func (f *Forge) MakeRepo(name string) (string, error) {
	dir := f.dir(name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	_, err := f.git("", "init", "--quiet", "--bare", "--initial-branch=main", dir)
	return dir, err
}

// Put commits one file to a branch, which is made where it is missing.
func (f *Forge) Put(repo, branch, file, text string) (string, error) {
	tmp, err := os.MkdirTemp("", "forge-put-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if _, err := f.git("", "clone", "--quiet", f.dir(repo), tmp); err != nil {
		return "", err
	}
	if f.ref(repo, branch) != "" {
		_, err = f.git(tmp, "checkout", "--quiet", branch)
	} else {
		_, err = f.git(tmp, "checkout", "--quiet", "-B", branch)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(tmp, file), []byte(text), 0o600)
	}
	for _, args := range [][]string{{"add", "-A"}, {"commit", "--quiet", "-m", "Change " + file}, {"push", "--quiet", "origin", "HEAD:refs/heads/" + branch}} {
		if err == nil {
			_, err = f.git(tmp, args...)
		}
	}
	return f.ref(repo, branch), err
}

// Ref is the commit a branch is at, "" for none.
func (f *Forge) Ref(repo, branch string) string { return f.ref(repo, branch) }

func (f *Forge) dir(repo string) string { return filepath.Join(f.root, repo+".git") }

func (f *Forge) git(dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Forge", "GIT_AUTHOR_EMAIL=forge@example.com",
		"GIT_COMMITTER_NAME=Forge", "GIT_COMMITTER_EMAIL=forge@example.com")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %v: %w: %s", args, err, said.String())
	}
	return strings.TrimSpace(string(out)), nil
}

func (f *Forge) ref(repo, branch string) string {
	out, err := f.git(f.dir(repo), "rev-parse", "--quiet", "--verify", "refs/heads/"+branch+"^{commit}")
	if err != nil {
		return ""
	}
	return out
}

func (f *Forge) pull(repo string, number int64) *Pull {
	for _, p := range f.pulls[repo] {
		if p.Number == number {
			return p
		}
	}
	return nil
}

// sha is where a pull request's branch is: as it was, once it is closed.
func (f *Forge) sha(repo string, p *Pull) string {
	if p.State == "open" {
		if now := f.ref(repo, p.Head); now != "" {
			p.Sha = now
		}
	}
	return p.Sha
}

// commits counts what head has that base has not.
func (f *Forge) commits(repo, base, head string) int {
	out, _ := f.git(f.dir(repo), "rev-list", "--count", "refs/heads/"+base+"..refs/heads/"+head)
	n, _ := strconv.Atoi(out)
	return n
}

// fits reports whether a pull request can be merged without conflicts.
func (f *Forge) fits(repo string, p *Pull) bool {
	_, err := f.git(f.dir(repo), "merge-tree", "--write-tree", "refs/heads/"+p.Base, f.sha(repo, p))
	return err == nil
}

// merge makes the commits a forge makes.
func (f *Forge) merge(repo string, p *Pull, strategy string) error {
	dir, sha := f.dir(repo), f.sha(repo, p)
	base := f.ref(repo, p.Base)
	if p.State != "open" || sha == "" || base == "" {
		return errors.New("it is not open")
	}
	var made string
	var err error
	switch strategy {
	case "rebase":
		var tmp string
		if tmp, err = os.MkdirTemp("", "forge-rebase-"); err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		for _, args := range [][]string{{"clone", "--quiet", "--no-checkout", dir, tmp}, {"-C", tmp, "checkout", "--quiet", "--detach", sha},
			{"-C", tmp, "rebase", "--quiet", "--no-ff", base}, {"-C", tmp, "push", "--quiet", "origin", "HEAD:refs/heads/" + p.Base}} {
			if _, err = f.git("", args...); err != nil {
				return err
			}
		}
		made = f.ref(repo, p.Base)
	default:
		var tree string
		if tree, err = f.git(dir, "merge-tree", "--write-tree", base, sha); err != nil {
			return err
		}
		args := []string{"commit-tree", strings.Fields(tree)[0], "-m", fmt.Sprintf("%s (#%d)", p.Title, p.Number), "-p", base}
		if strategy != "squash" {
			args = append(args, "-p", sha)
		}
		if made, err = f.git(dir, args...); err != nil {
			return err
		}
		if _, err = f.git(dir, "update-ref", "refs/heads/"+p.Base, made, base); err != nil {
			return err
		}
	}
	p.State, p.MergedSha, p.MergedAt = "merged", made, f.clock()
	return nil
}

// open makes a pull request; words say what is wrong.
func (f *Forge) open(repo string, p Pull) *Pull {
	p.Number, p.State = int64(len(f.pulls[repo])+1), "open"
	p.Sha = f.ref(repo, p.Head)
	f.pulls[repo] = append(f.pulls[repo], &p)
	return &p
}

// same returns the open pull request of two branches.
func (f *Forge) same(repo, head, base string) *Pull {
	for _, p := range f.pulls[repo] {
		if p.State == "open" && p.Head == head && p.Base == base {
			return p
		}
	}
	return nil
}

// ServeHTTP answers git, and programs.
func (f *Forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w, status: http.StatusOK}
	defer func() {
		f.mu.Lock()
		f.asked = append(f.asked, r.Method+" "+r.URL.EscapedPath()+" "+strconv.Itoa(rec.status))
		f.mu.Unlock()
	}()
	f.mu.Lock()
	turn := f.turn
	f.mu.Unlock()
	if turn != nil && turn(rec, r) {
		return
	}
	if check, ok := strings.CutPrefix(r.URL.Path, "/logs/"); ok { // where GitHub keeps them: no token is welcome there
		f.mu.Lock()
		defer f.mu.Unlock()
		if r.Header.Get("Authorization") != "" {
			rec.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = rec.Write([]byte(f.logs[check]))
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/api/") {
		f.smart(rec, r)
		return
	}
	if r.Header.Get("User-Agent") == "" {
		reply(rec, http.StatusForbidden, map[string]any{"message": "Request forbidden by administrative rules. Please make sure your request has a User-Agent header."})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mux.ServeHTTP(rec, r)
}

// smart answers git, to who shows a token as password.
func (f *Forge) smart(w http.ResponseWriter, r *http.Request) {
	_, pass, _ := r.BasicAuth()
	f.mu.Lock()
	t := f.token(pass)
	f.mu.Unlock()
	if t == nil {
		w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	f.back.ServeHTTP(w, r)
}

func (f *Forge) token(value string) *Token {
	for i := range f.tokens {
		if value != "" && f.tokens[i].Value == value {
			return &f.tokens[i]
		}
	}
	return nil
}

// spend takes one request of the rate limit and reports it in the headers of the kind; false when none is left.
func (f *Forge) spend(w http.ResponseWriter, prefix string) bool {
	if f.left < 0 {
		return true
	}
	left := max(f.left-1, 0)
	w.Header().Set(prefix+"Limit", "5000")
	w.Header().Set(prefix+"Remaining", strconv.Itoa(left))
	w.Header().Set(prefix+"Reset", strconv.FormatInt(f.reset.Unix(), 10))
	if f.left == 0 {
		return false
	}
	f.left = left
	return true
}

type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) { r.status = status; r.ResponseWriter.WriteHeader(status) }

// Unwrap lets the writer beneath be found.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// tagged answers a GET with its ETag, or 304.
func tagged(w http.ResponseWriter, r *http.Request, v any) bool {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return false
	}
	sum := sha256.Sum256(append(b, w.Header().Get("Link")...))
	tag := `W/"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, max-age=0")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return false
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(b)
	return true
}

// body reads a request strictly: JSON, of this shape.
func body(r *http.Request, v any) error {
	if ct := r.Header.Get("Content-Type"); !strings.HasPrefix(ct, "application/json") {
		return fmt.Errorf("the content type is %q", ct)
	}
	d := json.NewDecoder(io.LimitReader(r.Body, 1<<20))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// cut is one page of a list, as page and size ask for it; next is the number of the one after it, 0 for none.
func cut[T any](r *http.Request, sizeName string, size, most int, all []T) (items []T, page, next int) {
	page = 1
	if n, err := strconv.Atoi(r.URL.Query().Get("page")); err == nil && n > 0 {
		page = n
	}
	if n, err := strconv.Atoi(r.URL.Query().Get(sizeName)); err == nil && n > 0 {
		size = min(n, most)
	}
	from := min((page-1)*size, len(all))
	to := min(from+size, len(all))
	if to < len(all) {
		next = page + 1
	}
	return append([]T{}, all[from:to]...), page, next
}

// linkTo links to the next page as RFC 8288 defines.
func linkTo(w http.ResponseWriter, r *http.Request, next int) {
	if next == 0 {
		return
	}
	u := *r.URL
	q := u.Query()
	q.Set("page", strconv.Itoa(next))
	u.RawQuery = q.Encode()
	w.Header().Set("Link", fmt.Sprintf(`<https://%s%s>; rel="next"`, r.Host, u.RequestURI()))
}
