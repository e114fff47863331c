package git

import (
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
)

// Remote is a parsed repository URL.
type Remote struct {
	URL      string // without credentials
	Username string // user name in a URL with a token; "" = none
	Token    string // token in the URL; "" = none
	Name     string // last path element, without .git
	File     string // folder of a file URL
}

var (
	helperURL = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+.-]*::`)
	// ScpURL is a remote in scp's form, such as git@host:path.
	ScpURL = regexp.MustCompile(`^(?:([A-Za-z0-9_][A-Za-z0-9._-]*)@)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):([^:].*)$`)
	// hostForm matches a name, or an address in brackets, and a port: git puts an ssh host into a line that a shell reads.
	hostForm = regexp.MustCompile(`^(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?\.?|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?$`)
	userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._@+-]*$`)
)

// ParseRemote checks a repository URL that a user gave. It accepts only the allowed protocols and nothing git or ssh could take for an
// option or a helper, and separates credentials from the URL to store.
func ParseRemote(raw string, protocols []string) (Remote, error) {
	bad := func(format string, args ...any) (Remote, error) {
		return Remote{}, fault.New(fault.Invalid, "url_invalid", format, args...)
	}
	raw = strings.TrimSpace(raw)
	switch {
	case raw == "":
		return bad("Give the repository's URL, such as https://github.com/you/project.git.")
	case len(raw) > 2048 || !utf8.ValidString(raw) || strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return bad("The URL has spaces, control characters or is too long.")
	case strings.HasPrefix(raw, "-"):
		return bad("A URL cannot begin with a dash.")
	case helperURL.MatchString(raw):
		return bad("Transport helpers such as ext:: are not allowed. Use %s.", protocolWords(protocols))
	}
	if !strings.Contains(raw, "://") {
		return parseSCP(raw, protocols)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return bad("This is not a URL git understands. Use one such as https://github.com/you/project.git.")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	if !slices.Contains(protocols, u.Scheme) {
		return Remote{}, fault.New(fault.Invalid, "protocol_not_allowed", "The protocol %q is not allowed. Use %s.", u.Scheme, protocolWords(protocols))
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return bad("The URL has a ? or # part: give the clone URL alone.")
	}
	if u.Scheme == "file" {
		if u.Host != "" || u.User != nil || !path.IsAbs(u.Path) {
			return bad("A file URL has the form file:///path/to/repository.")
		}
		p := filepath.Clean(u.Path)
		return Remote{URL: "file://" + p, Name: RepoName(p), File: p}, nil
	}
	if u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.Host, "-") || strings.Trim(u.Path, "/") == "" || !hostForm.MatchString(u.Host) {
		return bad("The URL needs a host and a path, such as https://github.com/you/project.git.")
	}
	r := Remote{Name: RepoName(u.Path)}
	if u.User != nil {
		pass, hasPass := u.User.Password()
		switch {
		case u.Scheme == "https" || u.Scheme == "http":
			if r.Username, r.Token = u.User.Username(), pass; pass == "" {
				r.Username, r.Token = "", r.Username // the usual way to give a token alone
			}
			if r.Token != "" && u.Scheme != "https" {
				return bad("A token is sent over https only. Use an https URL.")
			}
			u.User = nil
		case hasPass:
			return bad("A password in an ssh URL cannot be used: use an ssh key, or an https URL with a token.")
		case !userName.MatchString(u.User.Username()):
			return bad("The user name in the URL is not one git accepts.")
		}
	}
	r.URL = u.String()
	return r, nil
}

func parseSCP(raw string, protocols []string) (Remote, error) {
	m := ScpURL.FindStringSubmatch(raw)
	if m == nil || strings.HasPrefix(m[3], "-") || strings.Contains(m[3], "::") {
		return Remote{}, fault.New(fault.Invalid, "url_invalid",
			"This is not a URL git understands. Use %s, or choose a folder on the server.", protocolWords(protocols))
	}
	if !slices.Contains(protocols, "ssh") {
		return Remote{}, fault.New(fault.Invalid, "protocol_not_allowed", "The protocol %q is not allowed. Use %s.", "ssh", protocolWords(protocols))
	}
	return Remote{URL: raw, Name: RepoName(m[3])}, nil
}

func protocolWords(protocols []string) string {
	var w []string
	for _, p := range protocols {
		w = append(w, p+"://")
	}
	return strings.Join(w, ", ")
}

// RepoName is a project's default name.
func RepoName(p string) string {
	n := path.Base(strings.TrimRight(p, "/"))
	n = strings.TrimSuffix(n, ".git")
	if n == "" || n == "." || n == "/" || n == ".." {
		return "project"
	}
	return n
}

// CheckName checks a name that a user gave for a project or a workspace and returns it trimmed.
func CheckName(name, what string) (string, error) {
	name = strings.TrimSpace(name)
	switch {
	case name == "":
		return "", fault.New(fault.Invalid, "name_missing", "Give the %s a name.", what)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }):
		return "", fault.New(fault.Invalid, "name_invalid", "The name has characters that cannot be shown.")
	case utf8.RuneCountInString(name) > 200:
		return "", fault.New(fault.Invalid, "name_too_long", "The name is longer than 200 characters.")
	}
	return name, nil
}
