package tunnel

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"unicode"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/executors/runner/wire"
)

// bye is why an end closes the connection.
type bye struct {
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason"`
}

const maxBye = 2 << 10

// codes are those of the reasons after which a machine does not reconnect.
var codes = map[string]string{ReasonRevoked: wire.CodeRevoked, ReasonReplaced: wire.CodeReplaced}

// clean makes untrusted text fit for a log and a page.
func clean(s string) string {
	if len(s) > 300 {
		s = s[:300]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "")))
}

// say records the reason an end gave. The first counts.
func (c *conn) say(b bye) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bye == nil {
		c.bye = &b
	}
}

func (c *conn) said() *bye {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bye
}

// words says why a connection has ended.
func (c *conn) words() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.bye != nil && c.bye.Reason != "":
		return c.bye.Reason
	case c.cause != nil:
		return reason(c.cause)
	default: // HTTP/2 closed it because its ping went unanswered
		return "Nothing was received any more: the network between is cut, or the other end sleeps."
	}
}

// reason explains an error of a connection.
func reason(err error) string {
	var (
		closed *websocket.CloseError
		alert  tls.AlertError
		timer  net.Error
	)
	switch {
	case errors.Is(err, errKey), errors.As(err, &alert):
		return "The other end does not have the key it was enrolled with."
	case errors.As(err, &closed) && closed.Text != "" && closed.Code != websocket.CloseAbnormalClosure:
		return "The connection was closed: " + clean(closed.Text)
	case errors.As(err, &closed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		return "The connection was closed: the other end, or a proxy between, ended it."
	case errors.Is(err, syscall.ECONNRESET):
		return "The connection was cut by the other end or on the way."
	case errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timer) && timer.Timeout():
		return "Nothing was received any more: the network between is cut, or the other end sleeps."
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETDOWN):
		return "The network is down."
	case errors.Is(err, net.ErrClosed):
		return "The connection was closed on this side."
	}
	return "The connection broke: " + clean(err.Error())
}

// noWay explains, with the cure, why there is no connection.
func noWay(host string, err error) string {
	var (
		unknown x509.UnknownAuthorityError
		named   x509.HostnameError
		dated   x509.CertificateInvalidError
		dns     *net.DNSError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return "The certificate of " + host + " is signed by an authority this machine does not trust. Give the authority's file with --ca, or in SSL_CERT_FILE."
	case errors.As(err, &named):
		return "The certificate of " + host + " is for another name. Use the name it is for."
	case errors.As(err, &dated):
		return "The certificate of " + host + " is not valid now: " + clean(dated.Error()) + ". Check this machine's clock, too."
	case errors.As(err, &record):
		return host + " does not answer with TLS. Is it http:// instead of https://?"
	case errors.As(err, &dns):
		return "The name " + clean(dns.Name) + " cannot be resolved. Is this machine on the network?"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Nobody answers at " + host + ": the server is not running, or something on the way refuses the connection."
	}
	return reason(err)
}
