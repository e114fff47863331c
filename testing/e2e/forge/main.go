// Command forge is forges for the browser tests: GitHub, GitLab, Gitea and Forgejo, over HTTPS, with git behind them. It prints where it
// receives commands over HTTP: POST /test/new creates a repository, the others make something happen in it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/parawork/parawork/testing/testforge"
)

const repo = "acme/app"

type control struct {
	root string
	mu   sync.Mutex
	all  map[string]*testforge.Forge
}

// body is what POSTs carry.
type body struct {
	Kind, Token        string
	Branch, File, Text string
	Number             int64
	Strategy           string
	Check              testforge.Check
	Reviews            []testforge.Review
	Blocked            string
	Scopes             []string
}

func main() {
	root, err := os.MkdirTemp("", "e2e-forge-")
	if err != nil {
		log.Fatal(err)
	}
	c := &control{root: root, all: map[string]*testforge.Forge{}}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stop
		_ = os.RemoveAll(root)
		os.Exit(0)
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /test/new", c.does(c.make))
	mux.HandleFunc("POST /test/put", c.does(func(f *testforge.Forge, t body) (any, error) {
		commit, err := f.Put(repo, t.Branch, t.File, t.Text)
		return map[string]string{"commit": commit}, err
	}))
	mux.HandleFunc("POST /test/check", c.does(func(f *testforge.Forge, t body) (any, error) {
		f.Say(repo, t.Check)
		return struct{}{}, nil
	}))
	mux.HandleFunc("POST /test/edit", c.does(func(f *testforge.Forge, t body) (any, error) {
		return struct{}{}, f.Edit(repo, t.Number, func(p *testforge.Pull) { p.Reviews, p.Blocked = t.Reviews, t.Blocked })
	}))
	mux.HandleFunc("POST /test/merge", c.does(func(f *testforge.Forge, t body) (any, error) {
		return struct{}{}, f.Merge(repo, t.Number, t.Strategy)
	}))
	mux.HandleFunc("POST /test/pulls", c.does(func(f *testforge.Forge, _ body) (any, error) { return f.Pulls(repo), nil }))
	mux.HandleFunc("POST /test/ref", c.does(func(f *testforge.Forge, t body) (any, error) {
		return map[string]string{"commit": f.Ref(repo, t.Branch)}, nil
	}))
	fmt.Println("listening on http://" + l.Addr().String())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(l))
}

// make starts a forge with one repository that has one commit, and lets a token in.
func (c *control) make(_ *testforge.Forge, t body) (any, error) {
	f, err := testforge.New(t.Kind, filepath.Join(c.root, t.Kind))
	if err != nil {
		return nil, err
	}
	f.Know(testforge.Token{Value: t.Token, User: "mika", Scopes: t.Scopes})
	if _, err := f.MakeRepo(repo); err != nil {
		return nil, err
	}
	if _, err := f.Put(repo, "main", "README.md", "# App\n"); err != nil {
		return nil, err
	}
	ca := filepath.Join(c.root, "ca.pem")
	if err := os.WriteFile(ca, f.Certificate(), 0o600); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[t.Kind] = f
	return map[string]string{"url": f.URL, "host": f.Host(), "api": f.API(), "ca": ca, "repository": repo}, nil
}

func (c *control) does(fn func(*testforge.Forge, body) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var t body
		err := json.NewDecoder(r.Body).Decode(&t)
		c.mu.Lock()
		f := c.all[t.Kind]
		c.mu.Unlock()
		if err == nil && f == nil && r.URL.Path != "/test/new" {
			err = errors.New("there is no such forge yet")
		}
		var v any
		if err == nil {
			v, err = fn(f, t)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(v)
	}
}
