// Package testsmtp is a small strict mail server for tests: it takes no mail without TLS and a login, holds clients to RFC 5321, and
// can refuse mail on request.
package testsmtp

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/tasks"
)

// Message is one mail that was taken.
type Message struct {
	From, To string
	Data     string // headers and body, lines ended by \n
}

// Server is a mail server on this machine.
type Server struct {
	Port     int
	Roots    *x509.CertPool // who vouch for it
	Username string
	Password string

	NoTLS    bool // offers none: before the first connection only
	Implicit bool // TLS from the first byte: likewise

	mu     sync.Mutex
	taken  []Message
	refuse map[string]string // recipient to answer
	wrong  []string          // what clients did that they may not
	news   chan struct{}
	cert   tls.Certificate
	l      net.Listener
	conns  sync.WaitGroup
}

// New starts a server that ends with the test. tune changes it before it listens.
func New(t testing.TB, tune ...func(*Server)) *Server {
	t.Helper()
	s := &Server{Username: "parawork", Password: "a mail password", refuse: map[string]string{}, news: make(chan struct{}, 1)}
	for _, fn := range tune {
		fn(s)
	}
	s.cert, s.Roots = certificate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if s.Implicit {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{s.cert}})
	}
	s.l, s.Port = l, l.Addr().(*net.TCPAddr).Port
	s.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.conns.Wait()
		for _, w := range s.wrong {
			t.Errorf("the mail server: %s", w)
		}
	})
	return s
}

// Refuse has mail to an address answered so, such as "550 5.1.1 no such user". "" = taken again.
func (s *Server) Refuse(to, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse[to] = answer
}

// Taken returns what was taken so far.
func (s *Server) Taken() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message(nil), s.taken...)
}

// Wait returns the n-th mail, from 1, once it has been taken.
func (s *Server) Wait(t testing.TB, n int) Message {
	t.Helper()
	late := time.After(time.Minute)
	for {
		if all := s.Taken(); len(all) >= n {
			return all[n-1]
		}
		select {
		case <-s.news:
		case <-late:
			t.Fatalf("%d mails arrived, want %d", len(s.Taken()), n)
		}
	}
}

func (s *Server) serve(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	say := func(format string, args ...any) { fmt.Fprintf(c, format+"\r\n", args...) }
	r := bufio.NewReader(c)
	private, known := s.Implicit || s.NoTLS, false
	var from, to string
	say("220 mail.test ESMTP")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if !strings.HasSuffix(line, "\r\n") {
			s.note("a line that does not end in CRLF: %q", line)
		}
		line = strings.TrimRight(line, "\r\n")
		verb, rest, _ := strings.Cut(line, " ")
		switch strings.ToUpper(verb) {
		case "EHLO":
			if rest == "" {
				s.note("EHLO without a name")
			}
			say("250-mail.test")
			if !private {
				say("250-STARTTLS")
			}
			if private {
				say("250-AUTH PLAIN LOGIN")
			}
			say("250 8BITMIME")
		case "STARTTLS":
			if private {
				say("503 5.5.1 already")
				continue
			}
			say("220 2.0.0 go ahead")
			tc := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{s.cert}})
			if err := tc.Handshake(); err != nil {
				return
			}
			c, r, private = tc, bufio.NewReader(tc), true
		case "AUTH":
			if !private {
				s.note("a login without TLS")
				say("538 5.7.11 encryption required")
				continue
			}
			mech, first, _ := strings.Cut(rest, " ")
			ok := false
			if strings.EqualFold(mech, "PLAIN") {
				if first == "" {
					say("334 ")
					first, _ = r.ReadString('\n')
				}
				raw, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(first))
				ok = string(raw) == "\x00"+s.Username+"\x00"+s.Password
			} else {
				say("504 5.5.4 unknown mechanism")
				continue
			}
			if known = ok; !ok {
				say("535 5.7.8 authentication failed")
				continue
			}
			say("235 2.7.0 welcome")
		case "MAIL":
			if !known && !s.NoTLS {
				say("530 5.7.0 sign in first")
				continue
			}
			from, to = between(rest), ""
			say("250 2.1.0 ok")
		case "RCPT":
			to = between(rest)
			s.mu.Lock()
			answer := s.refuse[to]
			s.mu.Unlock()
			if answer != "" {
				to = ""
				say("%s", answer)
				continue
			}
			say("250 2.1.5 ok")
		case "DATA":
			if from == "" || to == "" {
				say("503 5.5.1 no recipient")
				continue
			}
			say("354 go on")
			lines, err := textproto.NewReader(r).ReadDotLines()
			if err != nil {
				return
			}
			for _, l := range lines {
				if len(l) > 998 {
					s.note("a line of %d bytes", len(l))
				}
			}
			s.mu.Lock()
			s.taken = append(s.taken, Message{From: from, To: to, Data: strings.Join(lines, "\n") + "\n"})
			s.mu.Unlock()
			tasks.Wake(s.news)
			from, to = "", ""
			say("250 2.0.0 taken")
		case "RSET":
			from, to = "", ""
			say("250 2.0.0 ok")
		case "NOOP":
			say("250 2.0.0 ok")
		case "QUIT":
			say("221 2.0.0 bye")
			return
		default:
			say("502 5.5.2 unknown command")
		}
	}
}

func (s *Server) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// between is the address in "FROM:<a@b>".
func between(s string) string {
	_, s, _ = strings.Cut(s, "<")
	s, _, _ = strings.Cut(s, ">")
	return s
}

// certificate makes one for 127.0.0.1 that vouches for itself.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}
