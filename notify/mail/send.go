package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"
)

// sendTimeout bounds one mail, from the dial to the server's last word.
const sendTimeout = 60 * time.Second

// send hands one mail to the mail server. mailID is the message's permanent id, by which a server can recognise a duplicate.
func (s *Service) send(ctx context.Context, to string, c content, mailID string) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	m := gomail.NewMsg()
	if err := m.From(s.cfg.Server.From); err != nil {
		return fmt.Errorf("mail.from: %w", err)
	}
	if err := m.To(to); err != nil {
		return unusable{err}
	}
	m.Subject(c.Subject)
	m.SetDateWithValue(s.cfg.Now())
	m.SetMessageIDWithValue(mailID + "@" + s.host())
	m.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no holiday answers
	m.SetBodyString(gomail.TypeTextPlain, c.Text)
	client, hangUp, err := s.client()
	if err != nil {
		return err
	}
	defer hangUp()
	return client.DialAndSendWithContext(ctx, m)
}

// host is the name this server says hello with.
func (s *Service) host() string {
	if s.cfg.Server.Hello != "" {
		return s.cfg.Server.Hello
	}
	if _, domain, ok := strings.Cut(strings.TrimSuffix(s.cfg.Server.From, ">"), "@"); ok {
		return domain
	}
	return "localhost"
}

// client makes what speaks to the mail server. hangUp ends its connections, which the library leaves open after some failures.
func (s *Service) client() (c *gomail.Client, hangUp func(), err error) {
	v := s.cfg.Server
	var lines []net.Conn
	hangUp = func() {
		for _, l := range lines {
			_ = l.Close()
		}
	}
	private := &tls.Config{ServerName: v.Host, RootCAs: v.Roots, MinVersion: tls.VersionTLS12}
	opts := []gomail.Option{gomail.WithTimeout(20 * time.Second), gomail.WithHELO(s.host()), gomail.WithTLSConfig(private)}
	switch v.TLS {
	case TLS:
		opts = append(opts, gomail.WithSSL())
	case Plain:
		opts = append(opts, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		opts = append(opts, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if v.TLS != TLS { // whose lines the library must make itself, to know them as private
		opts = append(opts, gomail.WithDialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
			l, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err == nil {
				lines = append(lines, l)
			}
			return l, err
		}))
	}
	opts = append(opts, gomail.WithPort(v.Port))
	if v.Username != "" {
		opts = append(opts, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(v.Username), gomail.WithPassword(v.Password))
	}
	if c, err = gomail.NewClient(v.Host, opts...); err != nil {
		return nil, nil, fmt.Errorf("the keys mail.* of config.json: %w", err)
	}
	return c, hangUp, nil
}

// unusable is an address no mail can be sent to.
type unusable struct{ error }

// final reports whether a retry is pointless: the server has refused this mail permanently (RFC 5321: 5yz).
func final(err error) bool {
	if _, bad := errors.AsType[unusable](err); bad {
		return true
	}
	e, ok := errors.AsType[*gomail.SendError](err)
	return ok && e.ErrorCode() >= 500 && e.ErrorCode() < 600
}

// wordsOf says in words why a mail was not taken: one line, without what servers put into theirs.
func wordsOf(err error) string {
	var lookup *net.DNSError
	var dial *net.OpError
	words := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		words = "it did not answer in time"
	case errors.As(err, &lookup):
		words = "its name cannot be found"
	case errors.As(err, &dial) && dial.Op == "dial":
		words = "nothing answers at its address and port"
	}
	words = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(words, "?"))
	if r := []rune(words); len(r) > 300 {
		words = string(r[:300]) + "..."
	}
	return strings.TrimSuffix(strings.TrimSpace(words), ".")
}
