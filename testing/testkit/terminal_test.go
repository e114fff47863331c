package testkit_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// A viewer that does not acknowledge stops 256 KiB ahead, and slows nobody.
func TestSlowViewer(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Slow")
	s := h.Run(ws.ID, "sh", "-c", "read x; "+burst)
	slow := h.Attach(s.ID, "from=0&role=viewer&noack")
	fast := h.Attach(s.ID, "from=0")
	must(t, fast.Type("\r"))
	must(t, fast.See("END\r\n"))
	_, all := fast.Bytes()
	_, some := slow.Bytes()
	if len(some) > 256<<10 {
		t.Errorf("%d bytes were sent without an acknowledgement", len(some))
	}
	if !bytes.HasPrefix(all, some) {
		t.Error("the slow viewer saw other bytes")
	}
	if !bytes.HasSuffix(all, wantBurst()) {
		t.Error("the fast viewer's bytes are not what was written")
	}
}

// Many viewers see the same bytes; one who may only watch cannot type, by the socket or by the API.
func TestViewers(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Many")
	s := h.Run(ws.ID, "sh", "-c", "read x; "+burst)
	writer := h.Attach(s.ID, "from=0")
	var watching []*testkit.Terminal
	for range 20 {
		watching = append(watching, h.Attach(s.ID, "from=0&role=viewer"))
	}
	must(t, watching[0].Type("not me\r"))
	must(t, writer.Type("\r"))
	must(t, writer.See("END\r\n"))
	_, want := writer.Bytes()
	if strings.Contains(string(want), "not me") {
		t.Error("a viewer typed")
	}
	for i, v := range watching[1:] {
		must(t, v.See("END\r\n"))
		if _, got := v.Bytes(); sha256.Sum256(got) != sha256.Sum256(want) {
			t.Errorf("viewer %d saw %d other bytes (want %d)", i+1, len(got), len(want))
		}
	}
}

// One size owner: the first writer; another takes it by asking.
func TestSizeOwner(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Size")
	s := h.Run(ws.ID, "sh", "-c", "trap 'stty size' WINCH; echo up; while :; do read x || :; done")
	one, two := h.Attach(s.ID, "from=0"), h.Attach(s.ID, "from=0")
	must(t, one.See("up"))
	must(t, one.Wish(100, 30))
	must(t, one.See("30 100"))
	must(t, two.Wish(50, 20))
	must(t, two.Until("the second gets the owner's size", func() bool { return two.Size() == [2]uint16{100, 30} }))
	must(t, two.TakeSize())
	must(t, two.Wish(60, 25))
	must(t, one.Until("the size is the second's", func() bool { return one.Size() == [2]uint16{60, 25} }))
	must(t, two.See("25 60"))
}

// A paste of 1 MiB arrives whole.
func TestLargePaste(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Paste")
	s := h.Run(ws.ID, "sh", "-c", "stty raw -echo; echo up; head -c 1048576 | sha256sum")
	term := h.Attach(s.ID, "from=0")
	must(t, term.See("up"))
	paste := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for i := 0; i < len(paste); i += 16 << 10 {
		must(t, term.Type(string(paste[i:i+16<<10])))
	}
	must(t, term.See(fmt.Sprintf("%x", sha256.Sum256(paste))))
}

// Sockets of other sites, of strangers and of nobody are refused before the upgrade.
func TestSocketsRefuseStrangers(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Mine")
	s := h.Run(ws.ID, "cat")
	for _, tc := range []struct {
		name   string
		client *testkit.Client
		header http.Header
		want   int
	}{
		{"foreign origin", h.Client, http.Header{"Origin": {"https://evil.example"}}, 403},
		{"null origin", h.Client, http.Header{"Origin": {"null"}}, 403},
		{"nobody", h.As(""), nil, 401},
		{"wrong token", h.As("pw_user_nonsense"), nil, 401},
	} {
		term, resp, err := tc.client.TryAttach(s.ID, "from=0", tc.header)
		if err == nil {
			term.Close()
			t.Errorf("%s: was let in", tc.name)
		} else if resp == nil || resp.StatusCode != tc.want {
			t.Errorf("%s: %v, want %d", tc.name, resp, tc.want)
		}
	}
	if _, resp, err := h.TryAttach("ses_00000000000000000000000000", "from=0", nil); err == nil || resp == nil || resp.StatusCode != 404 {
		t.Errorf("an unknown session: %v %v", resp, err)
	}
}

// The screen as text is what a person would see, also after the session has ended.
func TestScreenAsText(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Screen")
	s := h.Run(ws.ID, "printf", `scrolled away\033[2J\033[3;5Hhello \033[31mw\303\266rld\033[0m\033]0;a title\007\033[1;2H`)
	h.Ended(s.ID)
	var got struct {
		Cols, Rows int
		Lines      []string
		Cursor     struct{ X, Y int }
		Title      string
		Alt        bool `json:"alt_screen"`
	}
	h.API("GET", "/sessions/"+s.ID+"/screen", nil, &got)
	if got.Cols != 80 || got.Rows != 24 || len(got.Lines) != 24 || got.Lines[0] != "" || got.Lines[2] != "    hello wörld" ||
		got.Cursor.X != 1 || got.Cursor.Y != 0 || got.Title != "a title" || got.Alt {
		t.Errorf("got %+v", got)
	}
}
