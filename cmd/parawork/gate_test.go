package main

import (
	"net/url"
	"slices"
	"testing"

	"github.com/parawork/parawork/config"
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
		ask, err := upstream(tc.proxy, func(k string) string { return tc.env[k] })
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

func TestAddressesOfAgents(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Agents = map[string]config.Agent{
		"codex": {Enabled: true, Env: map[string]string{"OPENAI_BASE_URL": "https://models.example/v1", "KEY": "sk-x", "PROXY": "socks5://x"}},
		"off":   {Env: map[string]string{"URL": "https://off.example"}},
	}
	agents, urls := agentAddresses(cfg)
	if !slices.Equal(agents, []string{"codex"}) || !slices.Equal(urls, []string{"https://models.example/v1"}) {
		t.Errorf("%q %q", agents, urls)
	}
}
