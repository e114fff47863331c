package conversation_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/sessions/conversation"
)

func item(id string, kind conversation.Kind, text string) conversation.Item {
	return conversation.Item{ID: id, At: 1, Kind: kind, Text: text}
}

func add(t testing.TB, w *conversation.Writer, again bool, items ...conversation.Item) int64 {
	t.Helper()
	n, _, err := w.Append(items, func(at int64) int64 { return 10 * at }, again)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ask(t testing.TB, v *conversation.View, q conversation.Query) (string, conversation.Page) {
	t.Helper()
	p, err := v.Page(q)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, it := range p.Items {
		out = append(out, it.ID+":"+it.Text)
	}
	return strings.Join(out, " "), p
}

// The timeline of a session that has ended is changed where it has what is changed; nothing comes to it.
func TestAmend(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), conversation.FileName)
	if n, grew, err := conversation.NewWriter(path, 1<<20).Amend([]conversation.Item{item("a", conversation.Prompt, "one")}); n != 0 || grew || err != nil {
		t.Errorf("of none: %d, %v, %v", n, grew, err)
	}
	add(t, conversation.NewWriter(path, 1<<20), false, item("a", conversation.Prompt, "one"), item("b", conversation.Text, "two"))
	gone := item("a", conversation.Prompt, "one")
	gone.Undone = true
	if _, grew, err := conversation.NewWriter(path, 1<<20).Amend([]conversation.Item{gone, item("b", conversation.Text, "two"), item("c", conversation.Text, "three")}); !grew || err != nil {
		t.Fatal(grew, err)
	}
	got, p := ask(t, conversation.NewView(path), conversation.Query{Limit: 5})
	if got != "a:one b:two" || !p.Items[0].Undone || p.Version != 3 {
		t.Errorf("%q, %+v", got, p)
	}
}

// A timeline keeps the last state of each item in its first place, but for what a turn spent; pages lead from the end to the
// beginning; what changed since a version can be asked for; a server that comes back adds nothing twice.
func TestKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), conversation.FileName)
	w := conversation.NewWriter(path, 1<<20)
	v := conversation.NewView(path)
	if got, p := ask(t, v, conversation.Query{Limit: 5}); got != "" || p.Total != 0 {
		t.Errorf("empty: %q", got)
	}
	usage := func(n int64) conversation.Item {
		return conversation.Item{ID: "u", At: 1, Kind: conversation.Spent, Usage: &conversation.Usage{Input: n}}
	}
	add(t, w, false, item("a", conversation.Prompt, "one"), item("b", conversation.Tool, "two"), usage(5))
	if got, _ := ask(t, v, conversation.Query{Limit: 5}); got != "a:one b:two u:" {
		t.Errorf("%q", got)
	}
	n := add(t, w, false, item("c", conversation.Text, "three"), item("b", conversation.Tool, "ZWEI"), usage(7), item("d", conversation.Text, "four"))
	got, p := ask(t, v, conversation.Query{Limit: 5})
	if got != "a:one b:ZWEI c:three u: d:four" || p.Total != 5 || p.Version != n || p.Spent.Input != 7 || p.Items[0].Offset != 10 {
		t.Errorf("%q %+v", got, p)
	}
	if got, _ := ask(t, v, conversation.Query{Limit: 5, Since: 3}); got != "c:three b:ZWEI u: d:four" {
		t.Errorf("since: %q", got)
	}
	if got, p := ask(t, v, conversation.Query{Limit: 2, Since: 3}); got != "c:three b:ZWEI" || !p.More || p.Version != 5 {
		t.Errorf("since, cut: %q %+v", got, p)
	}
	got, p = ask(t, v, conversation.Query{Limit: 2})
	if got != "u: d:four" || p.Before == 0 {
		t.Errorf("%q", got)
	}
	if got, p = ask(t, v, conversation.Query{Limit: 3, Before: p.Before}); got != "a:one b:ZWEI c:three" || p.Before != 0 {
		t.Errorf("older: %q %d", got, p.Before)
	}
	if got, _ := ask(t, v, conversation.Query{Limit: 5, Search: "zwei"}); got != "b:ZWEI" {
		t.Errorf("search: %q", got)
	}
	if got, _ := ask(t, v, conversation.Query{Limit: 5, Kinds: []conversation.Kind{conversation.Text}}); got != "c:three d:four" {
		t.Errorf("kinds: %q", got)
	}

	// A server dies in the middle of a line.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"n":8,"id":"x`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	w = conversation.NewWriter(path, 1<<20)
	if m := add(t, w, true, item("a", conversation.Prompt, "one"), item("b", conversation.Tool, "ZWEI"), usage(7)); m != n {
		t.Errorf("it kept again what it had: %d lines after %d", m, n)
	}
	add(t, w, true, item("c", conversation.Text, "drei"))
	if got, _ := ask(t, v, conversation.Query{Limit: 9}); got != "a:one b:ZWEI c:drei u: d:four" {
		t.Errorf("%q", got)
	}
}

// Beyond its limit a timeline drops its older half, and goes on.
func TestKeptIsCapped(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), conversation.FileName)
	w := conversation.NewWriter(path, 20_000)
	v := conversation.NewView(path)
	var last int64
	for i := range 1000 {
		add(t, w, false, item("first", conversation.Tool, fmt.Sprint(i)), item(fmt.Sprint("i", i), conversation.Text, strings.Repeat("x", 50)))
		got, p := ask(t, v, conversation.Query{Limit: 1})
		if got != fmt.Sprintf("i%d:%s", i, strings.Repeat("x", 50)) || p.Version <= last {
			t.Fatalf("after %d: %q, version %d after %d", i, got, p.Version, last)
		}
		last = p.Version
	}
	st, err := os.Stat(path)
	if err != nil || st.Size() > 20_000 {
		t.Errorf("%d bytes, %v", st.Size(), err)
	}
	seen := map[string]bool{}
	q := conversation.Query{Limit: 10}
	for more := true; more; {
		p, err := v.Page(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range p.Items {
			if seen[it.ID] {
				t.Errorf("%s twice", it.ID)
			}
			seen[it.ID] = true
		}
		q.Before, more = p.Before, p.Before != 0
	}
	if len(seen) < 20 {
		t.Errorf("only %d items", len(seen))
	}
}
