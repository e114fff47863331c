package secrets

import (
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
)

// Limits.
const (
	MaxValue    = 64 << 10 // bytes
	MaxSecrets  = 100      // of one owner
	maxName     = 100
	maxTarget   = 255
	maxUsername = 255
	maxAgents   = 50
	maxToken    = 2 << 10
)

var (
	envName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	agentName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	hostName  = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)
)

// taken are variables that say how a program is found and run, which a session sets itself, or by which another's program would be run.
var taken = []string{"PATH", "HOME", "SHELL", "USER", "LOGNAME", "PWD", "OLDPWD", "TERM", "TMPDIR", "IFS", "ENV", "BASH_ENV", "PROMPT_COMMAND", "PS4", "ZDOTDIR",
	"NODE_OPTIONS", "NODE_PATH", "PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PERL5OPT", "PERL5LIB", "PERL5DB", "RUBYOPT", "RUBYLIB",
	"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "PAGER", "EDITOR", "VISUAL", "BROWSER", "SSH_ASKPASS", "GCONV_PATH",
	"GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_PARAMETERS", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_ASKPASS",
	"GIT_PROXY_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_TEMPLATE_DIR", "GIT_SSL_NO_VERIFY", "GIT_EXEC_PATH",
	"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"}

var takenPrefixes = []string{"PARAWORK_", "LD_", "DYLD_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"}

func bad(field, format string, args ...any) error {
	return fault.New(fault.Invalid, "invalid_secret", format, args...).With("field", field)
}

// check cleans the fields of a secret and returns what is wrong with them.
func check(s *Secret) error {
	if !slices.Contains([]Kind{Env, File, Git}, s.Kind) {
		return bad("kind", "A secret is one of env, file and git.")
	}
	s.Name = strings.TrimSpace(s.Name)
	if err := checkText("name", s.Name, maxName); err != nil {
		return err
	}
	s.Target = strings.TrimSpace(s.Target)
	switch s.Kind {
	case Env:
		if err := checkVariable(s); err != nil {
			return err
		}
	case File:
		target, err := cleanPath(s.Target)
		if err != nil {
			return err
		}
		s.Target = target
		if s.UserID != "" && !strings.HasPrefix(target, "~/") {
			return bad("target", "Put your own file below the home, such as ~/.npmrc: everybody who sees the workspace sees the files in the worktree.")
		}
	case Git:
		if err := checkGit(s); err != nil {
			return err
		}
	}
	if s.Kind != Git && (s.Username != "" || s.InSandbox) {
		return bad("kind", "Only a git credential has a user name, and can stay outside of sandboxes.")
	}
	return checkAgents(s)
}

func checkText(field, text string, most int) error {
	if text == "" {
		return bad(field, "Give the secret a name.")
	}
	odd := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
	if len(text) > most || !utf8.ValidString(text) || strings.ContainsFunc(text, odd) {
		return bad(field, "That is too long (%d bytes at most), or has characters that cannot be shown.", most)
	}
	return nil
}

func checkVariable(s *Secret) error {
	if !envName.MatchString(s.Name) {
		return bad("name", "The name of a variable is letters, digits and _, and begins with no digit: such as NPM_TOKEN.")
	}
	has := func(prefix string) bool { return strings.HasPrefix(s.Name, prefix) }
	if slices.Contains(taken, s.Name) || slices.ContainsFunc(takenPrefixes, has) {
		return bad("name", "%s is a variable that sessions need for themselves. Choose another name.", s.Name)
	}
	if s.Target != "" {
		return bad("target", "A variable has no path and no host.")
	}
	return nil
}

// cleanPath checks where a file lies: below the home (~/) or below the worktree, and never in git's own folder.
func cleanPath(target string) (string, error) {
	rest, home := strings.CutPrefix(target, "~/")
	clean := path.Clean(rest)
	switch {
	case target == "" || rest == "" || strings.HasSuffix(target, "/"):
		return "", bad("target", "Enter the file's path: in the worktree, such as .env, or below the home, such as ~/.npmrc.")
	case len(target) > maxTarget || !utf8.ValidString(target) || strings.ContainsFunc(target, unicode.IsControl) || strings.Contains(target, `\`):
		return "", bad("target", "The path is too long (%d bytes at most), or has characters a path here cannot have.", maxTarget)
	case path.IsAbs(rest) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") || strings.HasPrefix(clean, "~"):
		return "", bad("target", "The path must stay in the worktree, or below the home (~/).")
	}
	for part := range strings.SplitSeq(clean, "/") {
		if strings.EqualFold(part, ".git") {
			return "", bad("target", "A file cannot be put into .git.")
		}
	}
	if home {
		return "~/" + clean, nil
	}
	return clean, nil
}

func checkGit(s *Secret) error {
	if s.ProjectID == "" && s.InSandbox {
		return bad("in_sandbox", "Only a project lets its credential into its sandboxes. Add it to the project.")
	}
	host, ok := cleanHost(s.Target)
	if !ok {
		return bad("target", "Give the host alone, such as github.com or git.example.com:8443.")
	}
	s.Target = host
	if len(s.Username) > maxUsername || strings.ContainsFunc(s.Username, unicode.IsControl) || !utf8.ValidString(s.Username) {
		return bad("username", "The user name is too long, or has characters that cannot be shown.")
	}
	return nil
}

// cleanHost is a host as credentials are known by: lower case, without the port that https has anyway.
func cleanHost(target string) (string, bool) {
	host, port := strings.ToLower(target), ""
	if h, p, err := net.SplitHostPort(host); err == nil {
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != p {
			return "", false
		}
		host, port = h, p
	}
	if len(host) > maxTarget || !hostName.MatchString(host) || strings.Contains(host, "..") {
		return "", false
	}
	if port == "" || port == "443" {
		return host, true
	}
	return host + ":" + port, true
}

func checkAgents(s *Secret) error {
	if s.Kind == Git && len(s.Agents) > 0 {
		return bad("agents", "A git credential is not for single agents.")
	}
	if len(s.Agents) > maxAgents {
		return bad("agents", "That are more agents than there can be.")
	}
	var out []string
	for _, a := range s.Agents {
		if !agentName.MatchString(a) {
			return bad("agents", "%q is not the name of an agent.", a)
		}
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	s.Agents = out
	return nil
}

// checkValue says what is wrong with a value of a kind.
func checkValue(k Kind, value string) error {
	switch {
	case value == "":
		return bad("value", "Enter the value.")
	case len(value) > MaxValue:
		return bad("value", "A value has at most %d KiB.", MaxValue>>10)
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return bad("value", "A value is UTF-8 text without NUL characters.")
	case k == Git && (len(value) > maxToken || strings.ContainsFunc(value, unicode.IsControl)):
		return bad("value", "A token is one line of at most %d bytes without control characters.", maxToken)
	}
	return nil
}
