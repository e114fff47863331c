package hostgit

import (
	"encoding/base64"
	"errors"
	"os"
	"strings"

	"github.com/parawork/parawork/internal/redact"
)

// Credential is what git proves who it is with to exactly one host, over https.
type Credential struct {
	Host     string // host or host:port
	Username string // "" = the token stands for it, too, which hosts take that ask for a token alone
	Token    string
}

// config makes git ask a helper of ours for this host, and nobody for any other: also where the host sends git on to another. The helper
// reads what it answers from a pipe, once: it stands in no argument, file or environment.
func (c *Credential) config() []string {
	return []string{
		"credential.https://" + c.Host + `.helper=!f() { test "$1" = get && cat <&3; }; f`,
		"http.sslVerify=true", "http.emptyAuth=false", "http.extraHeader=", "http.cookieFile=",
	}
}

// maxCredential bounds, in bytes, what goes into the pipe at once.
const maxCredential = 8 << 10

// pipe returns the end the helper reads from. The caller closes it.
func (c *Credential) pipe() (*os.File, error) {
	username := c.Username
	if username == "" {
		username = c.Token
	}
	text := "username=" + username + "\npassword=" + c.Token + "\n"
	if len(text) > maxCredential || strings.Count(text, "\n") != 2 || strings.ContainsRune(text, 0) {
		return nil, errors.New("the credential is none git can be told")
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

// hidden masks the credential in what git, or the host through it, says.
func (c *Credential) hidden() *redact.Masker {
	if c == nil {
		return redact.New()
	}
	basic := func(user string) string { return base64.StdEncoding.EncodeToString([]byte(user + ":" + c.Token)) }
	return redact.New(c.Token, basic(c.Username), basic(c.Token))
}
