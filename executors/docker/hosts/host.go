package hosts

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Host is a machine with a Docker engine, as a line of the settings says it.
type Host struct {
	Name string // what people call it; unique, a word of lower-case letters, digits and dashes
	User string
	Addr string // host:port of its SSH server
	Key  string // the fingerprint of its host key, such as SHA256:…; "" = not known yet: it is not used
}

var hostWord = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// ParseHost reads a line such as
//
//	build-1 ssh://deploy@10.0.0.5:22 SHA256:2mBZ…
//
// An error ends a sentence that begins with the line.
func ParseHost(line string) (Host, error) {
	words := strings.Fields(line)
	if len(words) < 2 || len(words) > 3 {
		return Host{}, fmt.Errorf("must be a name, an address such as ssh://user@host and a fingerprint such as SHA256:…")
	}
	h := Host{Name: words[0]}
	if !hostWord.MatchString(h.Name) {
		return Host{}, fmt.Errorf("begins with %q, which is no name of lower-case letters, digits and dashes", h.Name)
	}
	u, err := url.Parse(words[1])
	if err != nil || u.Scheme != "ssh" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return Host{}, fmt.Errorf("has the address %q; it must be one such as ssh://user@host or ssh://user@host:2222", words[1])
	}
	if _, has := u.User.Password(); has || u.User.Username() == "" {
		return Host{}, fmt.Errorf("has the address %q; it must say the user, and no password: ssh://user@host", words[1])
	}
	port := u.Port()
	if port == "" {
		port = "22"
	}
	h.User, h.Addr = u.User.Username(), net.JoinHostPort(u.Hostname(), port)
	if len(words) == 3 {
		sum, ok := strings.CutPrefix(words[2], "SHA256:")
		if b, err := base64.RawStdEncoding.DecodeString(sum); !ok || err != nil || len(b) != 32 {
			return Host{}, fmt.Errorf("has the fingerprint %q; it must be one that ssh-keygen -lf prints, such as SHA256:…", words[2])
		}
		h.Key = words[2]
	}
	return h, nil
}

// ParseHosts reads the lines of the settings.
func ParseHosts(lines []string) ([]Host, error) {
	var out []Host
	for _, line := range lines {
		h, err := ParseHost(line)
		if err != nil {
			return nil, fmt.Errorf("the line %q %w", line, err)
		}
		if slices.ContainsFunc(out, func(o Host) bool { return o.Name == h.Name }) {
			return nil, fmt.Errorf("two hosts are called %q", h.Name)
		}
		out = append(out, h)
	}
	return out, nil
}

// String is the host's line.
func (h Host) String() string {
	host, port, err := net.SplitHostPort(h.Addr)
	if err != nil {
		return h.Name
	}
	u := url.URL{Scheme: "ssh", User: url.User(h.User), Host: h.Addr}
	if port == "22" {
		if u.Host = host; strings.Contains(host, ":") {
			u.Host = "[" + host + "]"
		}
	}
	return strings.TrimSpace(h.Name + " " + u.String() + " " + h.Key)
}
