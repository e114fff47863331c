package hostname_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/hostname"
)

func TestNormal(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"example.com": "example.com", "EXAMPLE.Com.": "example.com", "bücher.example": "xn--bcher-kva.example", "BÜCHER.example": "xn--bcher-kva.example",
		"a_b.s3.example.com": "a_b.s3.example.com", "xn--bcher-kva.example": "xn--bcher-kva.example", "localhost": "localhost",
		"example。com": "example.com", "1.1.1.1": "1.1.1.1", "[2606:4700::1111]": "2606:4700::1111", "2606:4700:0:0::1111": "2606:4700::1111",
		"[::ffff:10.0.0.1]": "10.0.0.1", "::ffff:a00:1": "10.0.0.1", "3com.example": "3com.example", "1.2.3.example": "1.2.3.example",
		strings.Repeat("a", 63) + ".example": strings.Repeat("a", 63) + ".example",
		"ｅｘａｍｐｌｅ.com":                        "example.com",
	} {
		if got, err := hostname.Normal(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", ".", "..", "a..b", "a b", "a/b", "a@b", "a:b", "a%2eb", "a\x00b", "a\nb", "-a.example", "a-.example", "example.com..",
		"127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.0.0.01", "1.2.3.4.5", "0X7F.0.0.1", "0x", "1.2.3.4.", "①②⑦.0.0.1",
		"[::1", "::1]", "[1.2.3.4]", "[fe80::1%eth0]", "fe80::1%25eth0", "[example.com]", strings.Repeat("a", 64) + ".example",
		strings.Repeat("a.", 130) + "example", strings.Repeat("x", 10_000), "a\u200db.example.\u202e"} {
		if got, err := hostname.Normal(in); err == nil {
			t.Errorf("%.60q was taken for %q", in, got)
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"Example.com:443": "example.com:443", "[::1]:80": "[::1]:80", "[::ffff:1.2.3.4]:80": "1.2.3.4:80"} {
		host, port, err := hostname.Split(in)
		if err != nil || hostname.Join(host, port) != want {
			t.Errorf("%q: %q %d %v", in, host, port, err)
		}
	}
	for _, in := range []string{"example.com", "example.com:", "example.com:0", "example.com:65536", "example.com:+80", "example.com:080", "example.com:80x",
		"::1:80", ":80", "user@example.com:80", "example.com:80:80", "example.com:８０", "2130706433:80", strings.Repeat("a", 10_000) + ":80"} {
		if host, port, err := hostname.Split(in); err == nil {
			t.Errorf("%.60q was taken for %q %d", in, host, port)
		}
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, written string
		port             int
		names, not       []string
	}{
		{" Example.COM ", "example.com", 0, []string{"example.com"}, []string{"a.example.com", "example.com.evil.example", "xexample.com"}},
		{"*.example.com", "*.example.com", 0, []string{"a.example.com", "a.b.example.com"}, []string{"example.com", "xexample.com", "a.example.org"}},
		{"example.com:8443", "example.com:8443", 8443, []string{"example.com"}, nil},
		{"*.Example.com.:22", "*.example.com:22", 22, []string{"git.example.com"}, []string{"example.com"}},
		{"127.0.0.1:11434", "127.0.0.1:11434", 11434, []string{"127.0.0.1"}, nil},
		{"2606:4700::1111", "2606:4700::1111", 0, []string{"2606:4700::1111"}, nil},
		{"[2606:4700::1111]:443", "[2606:4700::1111]:443", 443, []string{"2606:4700::1111"}, nil},
	} {
		p, err := hostname.Parse(tc.pattern)
		if err != nil || p.String() != tc.written || p.Port() != tc.port {
			t.Errorf("%q: %q %d %v", tc.pattern, p, p.Port(), err)
			continue
		}
		for _, n := range tc.names {
			if !p.Names(n) {
				t.Errorf("%q does not name %q", tc.pattern, n)
			}
		}
		for _, n := range tc.not {
			if p.Names(n) {
				t.Errorf("%q names %q", tc.pattern, n)
			}
		}
	}
	for _, s := range []string{"", "*", "*.", "*.com", "*.localhost", "*.1.2.3.4", "a.*.com", "https://example.com", "example.com/path", "u@example.com", "example.com:0",
		"example.com:99999", "exa mple.com", "*.*.example.com", "127.1", "[::1", "!example.com", "@registries"} {
		if p, err := hostname.Parse(s); err == nil {
			t.Errorf("%q was taken for %q", s, p)
		}
	}
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"example.com:443", "[::1]:80", "127.1:80", "bücher.example:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, port, err := hostname.Split(s)
		if err != nil {
			return
		}
		if strings.ContainsAny(host, " \r\n\t/@%\x00") || len(host) > hostname.Max || port < 1 || port > 65535 {
			t.Errorf("%q was taken for %q %d", s, host, port)
		}
		again, port2, err := hostname.Split(hostname.Join(host, port))
		if err != nil || again != host || port2 != port {
			t.Errorf("%q: %q is read as %q, %v", s, hostname.Join(host, port), again, err)
		}
	})
}
