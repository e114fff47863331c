package e2btest_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/executors/e2b/e2btest/envd"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	b := r.create(nil)
	put := func(want int, query url.Values, body string, edit func(*http.Request)) answer {
		t.Helper()
		req := b.request("POST", "/files?"+query.Encode(), strings.NewReader(body))
		req.Header.Set("Content-Type", "application/octet-stream")
		if edit != nil {
			edit(req)
		}
		return b.send(want, req)
	}
	get := func(want int, query url.Values, edit func(*http.Request)) answer {
		t.Helper()
		req := b.request("GET", "/files?"+query.Encode(), nil)
		if edit != nil {
			edit(req)
		}
		return b.send(want, req)
	}
	at := func(path string) url.Values { return url.Values{"path": {path}} }
	noToken := func(req *http.Request) { req.Header.Del("X-Access-Token") }

	var out []struct{ Path, Name, Type string }
	put(200, at("/work/deep/a file"), "hello", nil).into(t, &out)
	if len(out) != 1 || out[0].Path != "/work/deep/a file" || out[0].Name != "a file" || out[0].Type != "file" {
		t.Errorf("%+v", out)
	}
	if text, _ := b.sh("stat -c '%U %a' '/work/deep/a file'; stat -c %U /work"); text != "user 644\nuser\n" {
		t.Errorf("%q", text)
	}
	if a := get(200, at("/work/deep/a file"), nil); string(a.body) != "hello" {
		t.Errorf("%q", a.body)
	}
	if a := get(206, at("/work/deep/a file"), func(req *http.Request) { req.Header.Set("Range", "bytes=1-2") }); string(a.body) != "el" {
		t.Errorf("%q", a.body)
	}
	put(200, url.Values{"path": {"own"}, "username": {"root"}}, "x", nil)
	if text, _ := b.sh("ls ~/own 2>&1"); !strings.Contains(text, "No such") {
		t.Errorf("root's file is at %q", text)
	}

	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for _, name := range []string{"/work/m1", "/work/m2"} {
		part, err := w.CreateFormFile("file", name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(part, name)
	}
	w.Close()
	put(200, nil, form.String(), func(req *http.Request) { req.Header.Set("Content-Type", w.FormDataContentType()) }).into(t, &out)
	if text, _ := b.sh("cat /work/m1 /work/m2"); len(out) != 2 || text != "/work/m1/work/m2" {
		t.Errorf("%+v, %q", out, text)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, "unpacked")
	z.Close()
	put(200, at("/work/z"), packed.String(), func(req *http.Request) { req.Header.Set("Content-Encoding", "gzip") })
	if a := get(200, at("/work/z"), func(req *http.Request) { req.Header.Set("Accept-Encoding", "identity") }); string(a.body) != "unpacked" {
		t.Errorf("%q", a.body)
	}
	b.send(200, func() *http.Request {
		return b.request("POST", "/files/compose", strings.NewReader(`{"source_paths":["/work/m1","/work/z"],"destination":"/work/both","username":"user"}`))
	}())
	if text, _ := b.sh("cat /work/both; ls /work"); text != "/work/m1unpackedboth\ndeep\nm2\n" {
		t.Errorf("%q", text)
	}

	put(400, nil, "x", nil)
	put(400, at("/work"), "x", nil)
	put(401, at("/work/x"), "x", noToken)
	put(401, at("/work/x"), "x", func(req *http.Request) { req.Header.Set("X-Access-Token", "ea_wrong") })
	put(401, url.Values{"path": {"/work/x"}, "username": {"stranger"}}, "x", nil)
	put(400, at("/work/x"), "x", func(req *http.Request) { req.Header.Set("Content-Encoding", "br") })
	put(400, at("/work/x"), "x", func(req *http.Request) { req.Header.Set("Content-Type", "text/plain") })
	get(404, at("/work/nothing"), nil)
	get(400, at("/work"), nil)
	get(200, at("/dev/null"), nil)
	get(401, at("/work/m2"), noToken)

	sign := func(path, op, user string, expires int64) url.Values {
		q := url.Values{"path": {path}, "signature": {envd.Sign(path, op, user, b.EnvdAccessToken, expires)}}
		if user != "" {
			q.Set("username", user)
		}
		if expires > 0 {
			q.Set("signature_expiration", jsonText(expires))
		}
		return q
	}
	get(200, sign("/work/m2", "read", "", 0), noToken)
	get(200, sign("/work/m2", "read", "user", time.Now().Unix()+60), noToken)
	get(401, sign("/work/m2", "write", "", 0), noToken)
	get(401, sign("/work/m2", "read", "", time.Now().Unix()-60), noToken)
	put(200, sign("/work/signed", "write", "", 0), "x", noToken)
	put(401, sign("/work/signed", "read", "", 0), "x", noToken)

	if err := r.FillDisk(b.SandboxID, true); err != nil {
		t.Fatal(err)
	}
	put(507, at("/work/full"), "x", nil)
	if err := r.FillDisk(b.SandboxID, false); err != nil {
		t.Fatal(err)
	}
	put(200, at("/work/full"), "x", nil)
}

func TestWatching(t *testing.T) {
	t.Parallel()
	b := newRig(t, e2btest.Config{}).create(nil)
	s := b.open("filesystem.Filesystem/WatchDir", m{"path": "/home/user", "recursive": true}, nil)
	if text, err := s.raw(); err != nil || !strings.Contains(string(text), "start") {
		t.Fatalf("%s, %v", text, err)
	}
	var made struct{ WatcherId string }
	b.rpc(200, "filesystem.Filesystem/CreateWatcher", m{"path": "~"}).into(t, &made)
	b.sh("touch ~/seen")
	text, err := s.raw()
	var seen struct {
		Filesystem struct{ Name, Type string }
	}
	if err != nil || json.Unmarshal(text, &seen) != nil || seen.Filesystem.Name != "seen" || seen.Filesystem.Type != "EVENT_TYPE_CREATE" {
		t.Errorf("%s, %v", text, err)
	}
	eventually(t, "the other watcher sees it", func() bool {
		return strings.Contains(string(b.rpc(200, "filesystem.Filesystem/GetWatcherEvents", m{"watcherId": made.WatcherId}).body), "seen")
	})
	b.rpc(200, "filesystem.Filesystem/RemoveWatcher", m{"watcherId": made.WatcherId})
	var list struct {
		Entries []struct{ Name, Type, Path, Owner string }
	}
	b.rpc(200, "filesystem.Filesystem/ListDir", m{"path": "~"}).into(t, &list)
	if len(list.Entries) != 1 || list.Entries[0].Path != "/home/user/seen" || list.Entries[0].Type != "FILE_TYPE_FILE" {
		t.Errorf("%+v", list)
	}
}
