package server

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
)

func TestASVS_3_3_1_SecureAndCookies(t *testing.T) {
	t.Parallel()
	chrome := "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
	safari := "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15"
	proxies := func(c *Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }
	public := func(c *Config) { c.PublicURL = "https://pw.example.com" }
	for name, tc := range map[string]struct {
		tune       func(*Config)
		host, peer string
		tls        bool
		proto, ua  string
		cookie     string
		secure     bool
	}{
		"loopback, Chromium":               {nil, "127.0.0.1:8080", "127.0.0.1:5", false, "", chrome, rest.HostCookie, false},
		"localhost, script":                {nil, "localhost:8080", "127.0.0.1:5", false, "", "curl/8", rest.HostCookie, false},
		"IPv6 loopback":                    {nil, "[::1]:8080", "[::1]:5", false, "", chrome, rest.HostCookie, false},
		"loopback, Safari keeps no Secure": {nil, "localhost:8080", "127.0.0.1:5", false, "", safari, rest.PlainCookie, false},
		"plain http in a network":          {nil, "192.168.1.5:8080", "192.168.1.9:5", false, "", chrome, rest.PlainCookie, false},
		"TLS":                              {nil, "pw.example.com", "1.2.3.4:5", true, "", safari, rest.HostCookie, true},
		"behind the trusted proxy":         {proxies, "pw.example.com", "10.1.2.3:5", false, "https", safari, rest.HostCookie, true},
		"a stranger claims https":          {proxies, "pw.example.com", "1.2.3.4:5", false, "https", chrome, rest.PlainCookie, false},
		"nobody is trusted":                {nil, "pw.example.com", "10.1.2.3:5", false, "https", chrome, rest.PlainCookie, false},
		"publicUrl is https":               {public, "pw.example.com", "10.1.2.3:5", false, "", safari, rest.HostCookie, true},
		"publicUrl, by another name":       {public, "10.0.0.1:8080", "10.1.2.3:5", false, "", chrome, rest.PlainCookie, false},
	} {
		tune := tc.tune
		if tune == nil {
			tune = func(*Config) {}
		}
		s := bare(t, tune)
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Host, r.RemoteAddr = tc.host, tc.peer
		r.Header.Set("User-Agent", tc.ua)
		if tc.proto != "" {
			r.Header.Set("X-Forwarded-Proto", tc.proto)
		}
		if tc.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if got := s.Secure(r); got != tc.secure {
			t.Errorf("%s: secure is %v", name, got)
		}
		c := s.Cookie(r, "v", s.cfg.Now().Add(1))
		if c.Name != tc.cookie || c.Secure != (tc.cookie == rest.HostCookie) || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
			t.Errorf("%s: cookie %s", name, c)
		}
		// A plain cookie is believed over plain http only.
		r.AddCookie(&http.Cookie{Name: rest.PlainCookie, Value: "planted"})
		if cred, err := s.credentialOf(r); err != nil || (cred.Cookie == "planted") == tc.secure {
			t.Errorf("%s: the plain cookie gives %+v, %v", name, cred, err)
		}
	}
}

// bare is a server whose services are never called.
func bare(t *testing.T, tune ...func(*Config)) *Server {
	t.Helper()
	return newHarness(t, tune...).server
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	s := bare(t)
	for name, tc := range map[string]struct {
		auth []string
		want rest.Credential
		ok   bool
	}{
		"a token":            {[]string{"Bearer pw_user_x"}, rest.Credential{Bearer: "pw_user_x"}, true},
		"in lower case":      {[]string{"bearer  pw_user_x "}, rest.Credential{Bearer: "pw_user_x"}, true},
		"none":               {nil, rest.Credential{Cookie: "c"}, true},
		"another scheme":     {[]string{"Basic dTpw"}, rest.Credential{}, false},
		"empty":              {[]string{""}, rest.Credential{}, false},
		"without a token":    {[]string{"Bearer "}, rest.Credential{}, false},
		"more than one":      {[]string{"Bearer a", "Bearer b"}, rest.Credential{}, false},
		"wins over a cookie": {[]string{"Bearer pw_user_x"}, rest.Credential{Bearer: "pw_user_x"}, true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: rest.HostCookie, Value: "c"})
		if tc.auth != nil {
			r.Header["Authorization"] = tc.auth
		}
		got, err := s.credentialOf(r)
		got.IP = "" // known of whoever asks
		if (err == nil) != tc.ok || got != tc.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if err != nil && fault.KindOf(err) != fault.Unauthorized {
			t.Errorf("%s: %v is no 401", name, err)
		}
	}
}

func TestHostNames(t *testing.T) {
	t.Parallel()
	s := bare(t, func(c *Config) { c.PublicURL = "https://pw.example.com" })
	for host, want := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:8080": true, "LOCALHOST": true, "a.localhost:1": true, "[::1]:8080": true, "127.9.9.9": true, "localhost.": true,
		"pw.example.com": true, "pw.example.com:443": true,
		"evil.example:8080": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false, "": false, "192.168.1.5:8080": false, "0.0.0.0:8080": false,
		"[::ffff:127.0.0.1]": true,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		if err := s.checkHost(r); (err == nil) != want {
			t.Errorf("host %q: %v", host, err)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = "anything.example"
	if err := bare(t, func(c *Config) { c.Loopback = false }).checkHost(r); err != nil {
		t.Errorf("a server of a network: %v", err)
	}
}

func TestASVS_4_4_2_OriginsOfSockets(t *testing.T) {
	t.Parallel()
	s := bare(t, func(c *Config) { c.PublicURL = "https://pw.example.com" })
	for name, tc := range map[string]struct {
		host   string
		origin []string
		cred   rest.Credential
		ok     bool
	}{
		"the same":                          {"127.0.0.1:8080", []string{"http://127.0.0.1:8080"}, rest.Credential{Cookie: "c"}, true},
		"another port":                      {"127.0.0.1:8080", []string{"http://127.0.0.1:8081"}, rest.Credential{Cookie: "c"}, false},
		"another name of the same":          {"127.0.0.1:8080", []string{"http://localhost:8080"}, rest.Credential{Cookie: "c"}, false},
		"default port":                      {"localhost", []string{"http://localhost:80"}, rest.Credential{Cookie: "c"}, true},
		"publicUrl":                         {"127.0.0.1:8080", []string{"https://pw.example.com"}, rest.Credential{Cookie: "c"}, true},
		"publicUrl over http":               {"127.0.0.1:8080", []string{"http://pw.example.com"}, rest.Credential{Cookie: "c"}, false},
		"a proxy that is not configured":    {"other.example.com", []string{"https://other.example.com"}, rest.Credential{Cookie: "c"}, true},
		"foreign":                           {"127.0.0.1:8080", []string{"https://evil.example"}, rest.Credential{Cookie: "c"}, false},
		"foreign with a token":              {"127.0.0.1:8080", []string{"https://evil.example"}, rest.Credential{Bearer: "t"}, false},
		"null":                              {"127.0.0.1:8080", []string{"null"}, rest.Credential{Cookie: "c"}, false},
		"empty":                             {"127.0.0.1:8080", []string{""}, rest.Credential{Cookie: "c"}, false},
		"two":                               {"127.0.0.1:8080", []string{"http://127.0.0.1:8080", "https://evil.example"}, rest.Credential{Cookie: "c"}, false},
		"with a path":                       {"127.0.0.1:8080", []string{"http://127.0.0.1:8080/x"}, rest.Credential{Cookie: "c"}, false},
		"with a user":                       {"127.0.0.1:8080", []string{"http://127.0.0.1:8080@evil.example"}, rest.Credential{Cookie: "c"}, false},
		"another scheme":                    {"127.0.0.1:8080", []string{"file://127.0.0.1:8080"}, rest.Credential{Cookie: "c"}, false},
		"a subdomain":                       {"pw.example.com", []string{"https://x.pw.example.com"}, rest.Credential{Cookie: "c"}, false},
		"none, with a token":                {"127.0.0.1:8080", nil, rest.Credential{Bearer: "t"}, true},
		"none, with a cookie":               {"127.0.0.1:8080", nil, rest.Credential{Cookie: "c"}, false},
		"none, and nobody (401 comes next)": {"127.0.0.1:8080", nil, rest.Credential{}, true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = tc.host
		if tc.origin != nil {
			r.Header["Origin"] = tc.origin
		}
		if err := s.checkSocket(r, tc.cred); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A link that a person follows on a foreign page opens; what the page fetches, frames or shows as an image does not.
func TestASVS_3_5_8_ForeignPagesFetchNothing(t *testing.T) {
	t.Parallel()
	s := bare(t)
	for name, tc := range map[string]struct {
		mode, dest string
		ok         bool
	}{
		"a link": {"navigate", "document", true}, "a frame": {"navigate", "iframe", false}, "an image": {"no-cors", "image", false}, "a script": {"no-cors", "script", false},
		"fetch": {"cors", "empty", false}, "an object": {"navigate", "object", false}, "nothing said": {"", "", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", tc.mode)
		r.Header.Set("Sec-Fetch-Dest", tc.dest)
		if err := s.checkCrossOrigin(r, rest.Credential{Cookie: "c"}); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Changes with a cookie must come from our own pages; who holds a token may come from anywhere.
func TestASVS_3_5_1_CrossOriginChanges(t *testing.T) {
	t.Parallel()
	s := bare(t, func(c *Config) { c.PublicURL = "https://pw.example.com" })
	for name, tc := range map[string]struct {
		method, site, origin string
		cred                 rest.Credential
		ok                   bool
	}{
		"our page":                  {"POST", "same-origin", "http://127.0.0.1:8080", rest.Credential{Cookie: "c"}, true},
		"no browser":                {"POST", "", "", rest.Credential{Cookie: "c"}, true},
		"foreign page":              {"POST", "cross-site", "https://evil.example", rest.Credential{Cookie: "c"}, false},
		"sibling":                   {"POST", "same-site", "http://127.0.0.1:9", rest.Credential{Cookie: "c"}, false},
		"old browser, foreign":      {"POST", "", "https://evil.example", rest.Credential{Cookie: "c"}, false},
		"publicUrl through a proxy": {"POST", "", "https://pw.example.com", rest.Credential{Cookie: "c"}, true},
		"foreign page reads":        {"GET", "cross-site", "https://evil.example", rest.Credential{Cookie: "c"}, false},
		"an image on a sibling":     {"GET", "same-site", "", rest.Credential{Cookie: "c"}, false},
		"foreign page, no cookie":   {"GET", "cross-site", "https://evil.example", rest.Credential{}, true},
		"a person types it":         {"GET", "none", "", rest.Credential{Cookie: "c"}, true},
		"foreign page with a token": {"POST", "cross-site", "https://evil.example", rest.Credential{Bearer: "t"}, true},
		"signing in from elsewhere": {"POST", "cross-site", "https://evil.example", rest.Credential{}, false},
	} {
		r := httptest.NewRequest(tc.method, "/", nil)
		r.Host = "127.0.0.1:8080"
		if tc.site != "" {
			r.Header.Set("Sec-Fetch-Site", tc.site)
		}
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		if err := s.checkCrossOrigin(r, tc.cred); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
