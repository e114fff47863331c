package contentorigin_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/server/contentorigin"
)

func TestAnAddressIsOfOneContentForSomeMinutes(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var served string
	o := contentorigin.New(contentorigin.Config{URL: &url.URL{Scheme: "https", Host: "content.example.com:8443"}, Now: func() time.Time { return now },
		Serve: func(_ http.ResponseWriter, r *http.Request, id string) {
			served = id
			if r.Header.Get("Cookie") != "" || r.Header.Get("Authorization") != "" {
				t.Error("the content's reader sees who asks")
			}
		}})
	if !o.Serves("Content.example.com:8443") || o.Serves("content.example.com") || o.Serves("parawork.example.com:8443") {
		t.Error("the wrong host is served")
	}
	get := func(method, address string) *httptest.ResponseRecorder {
		served = ""
		r, w := httptest.NewRequest(method, address, nil), httptest.NewRecorder()
		r.Header.Set("Cookie", "parawork_session=secret")
		r.Header.Set("Authorization", "Bearer secret")
		o.ServeHTTP(w, r)
		return w
	}
	good := o.Address("art_1")
	if !strings.HasPrefix(good, "https://content.example.com:8443/content/art_1/") {
		t.Errorf("the address is %s", good)
	}
	if w := get("GET", good); w.Code != 200 || served != "art_1" || w.Header().Get("Set-Cookie") != "" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d, served %q, %v", w.Code, served, w.Header())
	}
	for what, c := range map[string]struct {
		method, address string
		code            int
	}{
		"another content": {"GET", strings.Replace(good, "art_1", "art_2", 1), 404},
		"a longer time":   {"GET", strings.Replace(good, "/18", "/19", 1), 404},
		"no signature":    {"GET", good[:strings.LastIndex(good, "/")+1], 404},
		"the API":         {"GET", "https://content.example.com:8443/api/v1/teams", 404},
		"a change":        {"POST", good, 405},
	} {
		if w := get(c.method, c.address); w.Code != c.code || served != "" {
			t.Errorf("%s: %d, served %q", what, w.Code, served)
		}
	}
	now = now.Add(contentorigin.Life)
	if w := get("GET", good); w.Code != http.StatusGone || served != "" {
		t.Errorf("after its time: %d", w.Code)
	}
}
