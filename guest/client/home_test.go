package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
)

// What a guest says of its home is checked like the rest: lengths, names that match, an end.
func TestHomeOfALiar(t *testing.T) {
	t.Parallel()
	g := newLiar(t, goodHello)
	c := g.client(t, false)
	item := func(more string) string { return `{"path":"x","name":"x","type":"file","size":3` + more + `}` }
	var head, body, stat, list, glob string
	g.mux.HandleFunc("GET /v1/files", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("scope") != guest.ScopeHome {
			t.Error("asked for the worktree")
		}
		w.Header().Set(guest.HeaderFile, head)
		b := body
		if n, err := strconv.Atoi(r.URL.Query().Get("length")); b == "endless" && err == nil {
			b = strings.Repeat("x", n)
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		_, _ = io.WriteString(w, b)
	})
	for path, answer := range map[string]*string{"stat": &stat, "list": &list, "glob": &glob} {
		g.mux.HandleFunc("GET /v1/"+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, *answer) })
	}
	wrong := func(what string, err error) {
		t.Helper()
		if fault.CodeOf(err) != "guest_wrong_answer" {
			t.Errorf("%s: %v", what, err)
		}
	}
	h := c.Home(within(t))
	head, body = item(""), "abc"
	if b, err := h.ReadFile("x"); err != nil || string(b) != "abc" {
		t.Fatalf("%q, %v", b, err)
	}
	head, body = item(""), strings.Repeat("x", 2<<20)
	_, err := h.ReadFile("x")
	wrong("more than was asked for", err)
	head, body = `{"path":"x","name":"x","type":"dir"}`, "abc"
	_, err = h.ReadFile("x")
	wrong("a folder with bytes", err)
	head = "nonsense"
	_, err = h.ReadFile("x")
	wrong("no head", err)
	for what, s := range map[string]string{"a negative size": item(`,"size":-1`), "an unknown type": item(`,"type":"flying"`), "a long id": item(`,"id":"` + strings.Repeat("1", 100) + `"`)} {
		stat = s
		_, err := h.Stat("x")
		wrong(what, err)
	}
	for what, names := range map[string][]string{"another folder": {"q/1.jsonl"}, "up": {"../p/1.jsonl"}, "many": make([]string, homedir.MaxMatches+1), "deeper": {"p/x/1.jsonl"}} {
		b, _ := json.Marshal(map[string]any{"items": names})
		glob = string(b)
		_, err := h.Glob("p/*.jsonl")
		wrong(what, err)
	}
	for what, name := range map[string]string{"a path": "a/b", "nothing": "", "up": ".."} {
		list = `{"items":[{"path":"x","name":"` + name + `","type":"file"}]}`
		_, err := h.List("p")
		wrong(what, err)
	}
	// A file without end is cut off where whoever reads it has enough.
	// A file without end is cut off where whoever reads it has enough.
	head, body = item(""), "endless"
	if _, err := h.ReadFile("x"); !errors.Is(err, homedir.ErrTooLarge) {
		t.Errorf("an endless file: %v", err)
	}
}

func TestHelloWithAHome(t *testing.T) {
	t.Parallel()
	for home, good := range map[string]bool{"/home/agent": true, "home": false, "/": false, "/a/../b": false, "/" + strings.Repeat("x", 5000): false} {
		g := newLiar(t, strings.Replace(goodHello, `"root"`, `"home":"`+home+`","root"`, 1))
		h, err := g.client(t, false).Hello(within(t))
		if good != (err == nil) || good && h.Home != home {
			t.Errorf("%.50q: %+v, %v", home, h.Home, err)
		}
	}
}
