package accounts

import (
	"context"
	"net/url"
	"strings"
)

// Mail is one message to one person, in plain text.
type Mail struct {
	TeamID  string // "" = of the instance
	Kind    string // a stable word such as invite
	To      string // e-mail address
	Subject string
	Text    string // may hold a link that is a secret
}

// Mailer sends mail, where the instance has a mail server.
type Mailer interface {
	// Enabled reports whether mail is sent at all.
	Enabled() bool
	// Queue has a mail sent soon, and again while that fails. Within a transaction it is part of it.
	Queue(ctx context.Context, m Mail) error
}

// MailsLinks reports whether mail with links can be sent by m: there is a mail server, and the address people use is known. A link in a
// mail is never built from a request's Host header, which the client chooses.
func MailsLinks(m Mailer, publicURL string) bool {
	return m != nil && m.Enabled() && publicURL != ""
}

// Link is the address of a page that is opened with a token. The token stands in the fragment, which browsers keep to themselves.
func Link(base, page, token string) string {
	return strings.TrimRight(base, "/") + "/" + page + "#" + url.PathEscape(token)
}
