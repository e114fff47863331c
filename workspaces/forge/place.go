package forge

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// known are the forges recognized by their address.
var known = map[string]Kind{"github.com": GitHub, "gitlab.com": GitLab, "codeberg.org": Forgejo, "gitea.com": Gitea, "code.forgejo.org": Forgejo, "salsa.debian.org": GitLab,
	"invent.kde.org": GitLab, "code.videolan.org": GitLab, "framagit.org": GitLab, "gitlab.gnome.org": GitLab, "disroot.org": Forgejo}

// sshHosts are host names under which forges answer ssh where port 22 is closed.
var sshHosts = map[string]string{"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com"}

var (
	scp        = regexp.MustCompile(`^(?:[^@/:]+@)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*):([^:].*)$`)
	repository = regexp.MustCompile(`^[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+$`)
)

// remote parses a remote's URL: its host as a browser names it, and the path of the repository.
func remote(raw string) (host, path string, ok bool) {
	if !strings.Contains(raw, "://") {
		m := scp.FindStringSubmatch(raw)
		if m == nil {
			return "", "", false
		}
		host, path = m[1], m[2]
	} else {
		u, err := url.Parse(raw)
		if err != nil || u.Hostname() == "" || u.Scheme == "file" {
			return "", "", false
		}
		host, path = u.Hostname(), u.Path
		if u.Scheme == "https" || u.Scheme == "http" { // the ssh port is not that of the web pages
			host = u.Host
		}
	}
	host = strings.ToLower(strings.TrimSuffix(host, ":443"))
	if web := sshHosts[host]; web != "" {
		host = web
	}
	return host, strings.TrimSuffix(strings.Trim(path, "/"), ".git"), true
}

// kindOf returns the forge software of a host by its name; "" if the name does not say.
func kindOf(host string) Kind {
	name, _, _ := strings.Cut(host, ":")
	if k, ok := known[name]; ok {
		return k
	}
	if strings.HasSuffix(name, ".ghe.com") {
		return GitHub
	}
	first, _, _ := strings.Cut(name, ".")
	for _, k := range []Kind{GitHub, GitLab, Gitea, Forgejo} {
		if first == string(k) {
			return k
		}
	}
	return ""
}

// apiOf is the base URL of a forge's API.
func apiOf(k Kind, host string) string {
	switch {
	case k == GitHub && host == "github.com":
		return "https://api.github.com"
	case k == GitHub && strings.HasSuffix(host, ".ghe.com"):
		return "https://api." + host
	case k == GitHub:
		return "https://" + host + "/api/v3"
	case k == GitLab:
		return "https://" + host + "/api/v4"
	}
	return "https://" + host + "/api/v1"
}

// suffixOf is the path of a kind's API where pages and API share a host.
func suffixOf(k Kind) string {
	switch k {
	case GitHub:
		return "/api/v3"
	case GitLab:
		return "/api/v4"
	}
	return "/api/v1"
}

// tokenHost is the host whose credential is sent to an API: always the API's own host, so that no setting can send a token anywhere else.
func tokenHost(apiURL string) string {
	u, err := url.Parse(apiURL)
	if err != nil {
		return ""
	}
	switch {
	case u.Host == "api.github.com":
		return "github.com"
	case strings.HasPrefix(u.Host, "api.") && strings.HasSuffix(u.Host, ".ghe.com"):
		return strings.TrimPrefix(u.Host, "api.")
	}
	return strings.TrimSuffix(u.Host, ":443")
}

// locate determines a project's forge. If there is none it says why, and what would help.
func locate(origin string, s Settings) (Place, string) {
	if s.Kind == None {
		return Place{}, "This project is set to have no Git host."
	}
	host, path, ok := remote(origin)
	if !ok && (s.APIURL == "" || s.Repository == "" || s.Kind == "") {
		if origin == "" {
			return Place{}, "The repository has no remote. Add one, or use a project that was cloned from a Git host."
		}
		return Place{}, "The repository's remote is a folder, not a Git host."
	}
	p := Place{Kind: s.Kind, Host: host, APIURL: strings.TrimRight(s.APIURL, "/"), Repository: s.Repository}
	if p.Kind == "" {
		p.Kind = kindOf(host)
	}
	if p.Kind == "" {
		return p, "Which Git host " + host + " is cannot be derived from its name. Set it in the project's settings."
	}
	if p.APIURL == "" {
		p.APIURL = apiOf(p.Kind, p.Host)
	} else if u, err := url.Parse(p.APIURL); err == nil {
		below := strings.TrimSuffix(u.Path, suffixOf(p.Kind))
		p.APIURL = strings.TrimSuffix(p.APIURL, suffixOf(p.Kind)) + suffixOf(p.Kind)
		if p.Kind == GitHub && tokenHost(s.APIURL) != strings.TrimSuffix(u.Host, ":443") { // api.github.com has no folder
			p.APIURL = strings.TrimRight(s.APIURL, "/")
		}
		if below = strings.Trim(below, "/"); below != "" { // pages below a folder of a host: not part of the name
			path = strings.TrimPrefix(path, below+"/")
		}
		if p.Host == "" {
			p.Host = tokenHost(p.APIURL)
		}
	}
	p.Repository = cmp.Or(p.Repository, path)
	if !goodRepository(p.Kind, p.Repository) {
		return p, "The remote's address does not say which repository of " + p.Host + " it is. Set it in the project's settings, as owner/name."
	}
	return p, ""
}

func goodRepository(k Kind, name string) bool {
	parts := strings.Split(name, "/")
	if len(name) > 500 || !repository.MatchString(name) || slices.Contains(parts, ".") || slices.Contains(parts, "..") {
		return false
	}
	return len(parts) == 2 || k == GitLab
}

// clean validates and cleans settings somebody enters. check validates an address, if not nil.
func (s Settings) clean(check func(string) error) (Settings, error) {
	s.APIURL, s.Repository = strings.TrimRight(strings.TrimSpace(s.APIURL), "/"), strings.Trim(strings.TrimSpace(s.Repository), "/")
	if s.Kind != "" && !slices.Contains(Kinds, s.Kind) {
		return s, fault.New(fault.Invalid, "forge_invalid", "The Git host is one of github, gitlab, gitea, forgejo and none, or empty to derive it from the remote's address.").With("field", "forge.kind")
	}
	if s.Repository != "" && !goodRepository(GitLab, s.Repository) {
		return s, fault.New(fault.Invalid, "forge_invalid", "The repository has the form owner/name.").With("field", "forge.repository")
	}
	if s.APIURL == "" {
		return s, nil
	}
	u, err := url.Parse(s.APIURL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || len(s.APIURL) > 500 {
		return s, fault.New(fault.Invalid, "forge_invalid", "The API's address has the form https://git.example.com/api/v1: tokens are sent over https only.").With("field", "forge.api_url")
	}
	if s.Kind == "" {
		return s, fault.New(fault.Invalid, "forge_invalid", "Say which Git host answers at this address.").With("field", "forge.kind")
	}
	if check != nil {
		if err := check(s.APIURL); err != nil {
			return s, err
		}
	}
	return s, nil
}
