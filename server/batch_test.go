package server

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Many reads in one request answer what each would answer alone: with the asker's rights, its own status, and in two lines.
func TestReadsInABatch(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	paths := []string{"/me", "/teams/" + p.team.Slug + "/workspaces?limit=1", "/workspaces/none", "/openapi.yaml", "/teams/" + p.team.Slug + "/inbox", "/me", "/instance/users", "/me"}
	endless := "/threads/" + p.ids["thread"] + "/events"
	paths = append(paths, endless)
	body, err := json.Marshal(map[string]any{"paths": paths})
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"viewer", "outsider"} {
		r := h.do("POST", "/api/v1/batch", string(body), append(bearer(p.tokens[who]), "Accept-Encoding", "gzip")...)
		if r.StatusCode != 200 || r.Header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: %d %v", who, r.StatusCode, r.Header)
		}
		zip, err := gzip.NewReader(strings.NewReader(string(r.body)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(zip)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if len(lines) != 2*len(paths) {
			t.Fatalf("%s: %d lines: %s", who, len(lines), text)
		}
		for i := 0; i < len(lines); i += 2 {
			var head batchLine
			if err := json.Unmarshal([]byte(lines[i]), &head); err != nil {
				t.Fatal(err)
			}
			if paths[head.Index] == endless && who == "viewer" {
				if head.Status != 0 {
					t.Errorf("a stream: %d", head.Status)
				}
				continue
			}
			alone := h.do("GET", "/api/v1"+paths[head.Index], "", bearer(p.tokens[who])...)
			want := fmt.Sprint(alone.StatusCode, " ", alone.code())
			if paths[head.Index] == "/openapi.yaml" {
				want = "0 " // no JSON
			}
			if got := fmt.Sprint(head.Status, " ", reply{body: []byte(lines[i+1])}.code()); got != want {
				t.Errorf("%s, %s: %s in a batch, %s alone", who, paths[head.Index], got, want)
			}
			if head.Status == 200 && lines[i+1] != string(alone.body) {
				t.Errorf("%s, %s: %s in a batch, %s alone", who, paths[head.Index], lines[i+1], alone.body)
			}
		}
	}
	for _, bad := range []string{`{"paths":[]}`, `{"paths":["me"]}`, `{"paths":["/batch"]}`, `{"paths":["/me` + strings.Repeat(`","/me`, batchMost) + `"]}`} {
		if r := h.do("POST", "/api/v1/batch", bad, bearer(p.tokens["viewer"])...); r.StatusCode != 400 && r.StatusCode != 422 || r.code() != "invalid_batch" {
			t.Errorf("%.40s: %d %s", bad, r.StatusCode, r.body)
		}
	}
}

// What does not fit into a line ends the read that gives it, as soon as that is known.
func TestABatchHoldsLittle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind string
		text string
		want error
	}{
		"JSON":      {"application/json", `"1234"`, nil},
		"too long":  {"application/json", `"12345678"`, errAnswerTooLong},
		"a stream":  {"text/event-stream", "data: 1\n\n", errNoJSON},
		"a problem": {"application/problem+json", "{}", nil},
	} {
		var ended error
		w := &answerWriter{header: http.Header{"Content-Type": {c.kind}}, most: 8, json: true, refused: func(why error) { ended = why }}
		if _, err := w.Write([]byte(c.text)); !errors.Is(err, c.want) || ended != c.want || w.err != c.want || w.body.Len() > 8 {
			t.Errorf("%s: %v, %v, %d bytes are held", name, err, ended, w.body.Len())
		}
	}
}
