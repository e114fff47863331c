package gate_test

import (
	"net/url"
	"testing"

	"github.com/parawork/parawork/executors/gate"
)

func TestTheProxyTheServerGoesOutThrough(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		proxy  string
		env    map[string]string
		target string
		want   string // "" = directly
		bad    bool
	}{
		{target: "https://example.com"},
		{env: map[string]string{"HTTPS_PROXY": "http://p.corp:3128"}, target: "https://example.com", want: "http://p.corp:3128"},
		{env: map[string]string{"https_proxy": "p.corp:3128"}, target: "https://example.com", want: "http://p.corp:3128"},
		{env: map[string]string{"HTTPS_PROXY": "http://p.corp:3128", "NO_PROXY": ".corp"}, target: "https://git.corp"},
		{env: map[string]string{"HTTPS_PROXY": "http://p.corp:3128"}, target: "http://example.com"},
		{proxy: "none", env: map[string]string{"HTTPS_PROXY": "http://p.corp:3128"}, target: "https://example.com"},
		{proxy: "https://me:pw@q.corp", target: "http://example.com", want: "https://me:pw@q.corp"},
		{env: map[string]string{"HTTPS_PROXY": "socks5://p.corp:1080"}, bad: true},
	} {
		ask, err := gate.Upstream(tc.proxy, "none", func(k string) string { return tc.env[k] })
		if (err != nil) != tc.bad {
			t.Errorf("%+v: %v", tc, err)
		}
		if err != nil || ask == nil {
			if tc.want != "" {
				t.Errorf("%+v: no proxy", tc)
			}
			continue
		}
		target, _ := url.Parse(tc.target)
		got := ""
		if u, err := ask(target); err != nil {
			t.Error(err)
		} else if u != nil {
			got = u.String()
		}
		if got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}
