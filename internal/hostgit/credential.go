package hostgit

import (
	"encoding/base64"
	"errors"
	"os"
	"strings"

	"github.com/parawork/parawork/internal/redact"
)

// Credential authenticates git to exactly one host, over https.
type Credential struct {
	Host     string // host or host:port
	Username string // "" = the token stands for it, too, which hosts accept that expect only a token
	Token    string
}

// config makes git ask our helper for this host, and nothing for any other: also where the host redirects git to another. The helper reads
// its answer from a pipe, once: it is in no argument, file or environment.
func (c *Credential) config() []string {
	return []string{
		"credential.https://" + c.Host + `.helper=!f() { test "$1" = get && cat <&3; }; f`,
		"http.sslVerify=true", "http.emptyAuth=false", "http.extraHeader=", "http.cookieFile=",
	}
}

// maxCredential limits, in bytes, what is written to the pipe at once.
const maxCredential = 8 << 10

// pipe returns the end the helper reads from. The caller closes it.
func (c *Credential) pipe() (*os.File, error) {
	username := c.Username
	if username == "" {
		username = c.Token
	}
	text := "username=" + username + "\npassword=" + c.Token + "\n"
	if len(text) > maxCredential || strings.Count(text, "\n") != 2 || strings.ContainsRune(text, 0) {
		return nil, errors.New("git cannot take this credential")
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = w.WriteString(text)
	if err := errors.Join(err, w.Close()); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// hidden masks the credential in the output of git, or of the host.
func (c *Credential) hidden() *redact.Masker {
	if c == nil {
		return redact.New()
	}
	basic := func(user string) string { return base64.StdEncoding.EncodeToString([]byte(user + ":" + c.Token)) }
	return redact.New(c.Token, basic(c.Username), basic(c.Token))
}
