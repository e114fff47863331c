// Package seal encrypts the pipe between a host and its guest, where the carrier of the pipe records it: E2B's daemon logs every
// byte that is written to a process, and its log can be read with the API key. The pipe carries agents' keys, logins and files.
//
// Both ends know the guest's token. Each sends a fresh X25519 key; both directions are AES-256-GCM under keys derived from the
// exchange and the token, so that a record cannot be read by a later holder of the token, and nobody answers without it. A frame
// is a length of 4 bytes and the sealed bytes; nonces count. It does not hide how much is sent, or when.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

const (
	hello    = "pwseal1\n" // the host's first message
	keyBytes = 32
	maxPlain = 64 << 10 // bytes of one frame before sealing
	lengthOf = 4
)

// ErrNotSealed reports that the other end does not use this protocol, or does not know the token.
var ErrNotSealed = errors.New("the pipe is not sealed with the guest's token")

// Client seals a host's end of a pipe. It waits for the guest's key.
func Client(pipe io.ReadWriteCloser, token string) (io.ReadWriteCloser, error) {
	mine, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	if _, err := pipe.Write(append([]byte(hello), mine.PublicKey().Bytes()...)); err != nil {
		return nil, err
	}
	var theirs [keyBytes]byte
	if _, err := io.ReadFull(pipe, theirs[:]); err != nil {
		return nil, err
	}
	toGuest, toHost, err := keys(mine, theirs[:], mine.PublicKey().Bytes(), theirs[:], token)
	if err != nil {
		return nil, err
	}
	return &sealed{ReadWriteCloser: pipe, in: reader{r: pipe, aead: toHost}, out: writer{w: pipe, aead: toGuest}}, nil
}

// keys derives the keys of both directions.
func keys(mine *ecdh.PrivateKey, theirs, host, guest []byte, token string) (toGuest, toHost cipher.AEAD, err error) {
	pub, err := ecdh.X25519().NewPublicKey(theirs)
	if err != nil {
		return nil, nil, ErrNotSealed
	}
	shared, err := mine.ECDH(pub)
	if err != nil {
		return nil, nil, ErrNotSealed
	}
	salt := append(append([]byte(nil), host...), guest...)
	both, err := hkdf.Key(sha256.New, append(shared, token...), salt, "parawork pipe 1", 64)
	if err != nil {
		return nil, nil, err
	}
	if toGuest, err = gcm(both[:32]); err != nil {
		return nil, nil, err
	}
	toHost, err = gcm(both[32:])
	return toGuest, toHost, err
}

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// sealed is an encrypted pipe. One goroutine reads at a time; any may write.
type sealed struct {
	io.ReadWriteCloser
	in  reader
	out writer
}

func (s *sealed) Read(p []byte) (int, error)  { return s.in.read(p) }
func (s *sealed) Write(p []byte) (int, error) { return s.out.write(p) }

// nonce counts a direction's frames.
type nonce [12]byte

func (n *nonce) next() []byte {
	binary.BigEndian.PutUint64(n[4:], binary.BigEndian.Uint64(n[4:])+1)
	return n[:]
}

// reader opens frames. A read interrupted by a deadline is resumed where it was: net/http does so to take over a connection.
type reader struct {
	r    io.Reader
	aead cipher.AEAD
	n    nonce
	head [lengthOf]byte
	got  int    // bytes of head and buf that have come
	buf  []byte // of the frame being read
	rest []byte // opened and not yet read
	err  error
}

func (r *reader) read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		plain, err := r.frame()
		var late net.Error
		if err != nil && (!errors.As(err, &late) || !late.Timeout()) {
			r.err = err
		}
		if err != nil {
			return 0, err
		}
		r.rest = plain
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *reader) frame() ([]byte, error) {
	if r.got < lengthOf {
		if err := r.fill(r.head[:], 0); err != nil {
			return nil, err
		}
	}
	n := int(binary.BigEndian.Uint32(r.head[:]))
	if n < r.aead.Overhead() || n > maxPlain+r.aead.Overhead() {
		return nil, ErrNotSealed
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, max(n, 16<<10))
	}
	b := r.buf[:n]
	if err := r.fill(b, lengthOf); err != nil {
		return nil, err
	}
	r.got = 0
	plain, err := r.aead.Open(b[:0], r.n.next(), b, nil)
	if err != nil {
		return nil, ErrNotSealed
	}
	return plain, nil
}

// fill reads what is missing of b, which begins at offset at of the frame.
func (r *reader) fill(b []byte, at int) error {
	for r.got < at+len(b) {
		n, err := r.r.Read(b[r.got-at:])
		r.got += n
		if err != nil && r.got < at+len(b) {
			if errors.Is(err, io.EOF) && r.got > 0 {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

type writer struct {
	mu   sync.Mutex
	w    io.Writer
	aead cipher.AEAD
	n    nonce
	buf  []byte
}

func (w *writer) write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := 0
	for done < len(p) {
		piece := p[done:min(done+maxPlain, len(p))]
		n := len(piece) + w.aead.Overhead()
		if cap(w.buf) < lengthOf+n {
			w.buf = make([]byte, 0, max(lengthOf+n, 16<<10))
		}
		b := binary.BigEndian.AppendUint32(w.buf[:0], uint32(n))
		if _, err := w.w.Write(w.aead.Seal(b, w.n.next(), piece, nil)); err != nil {
			return done, err // nothing after a torn frame can be read: the pipe is over
		}
		done += len(piece)
	}
	return done, nil
}

// Listen seals the guest's end of each pipe that l accepts. The first read waits for the host's key, not Accept.
func Listen(l net.Listener, token string) net.Listener { return &listener{l, token} }

type listener struct {
	net.Listener
	token string
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, token: l.token}, nil
}

// conn is the guest's end.
type conn struct {
	net.Conn
	token string

	once sync.Once
	err  error
	in   reader
	out  writer
}

func (c *conn) begin() error {
	c.once.Do(func() { c.err = c.shake() })
	return c.err
}

func (c *conn) shake() error {
	var first [len(hello) + keyBytes]byte
	if _, err := io.ReadFull(c.Conn, first[:]); err != nil {
		return err
	}
	if string(first[:len(hello)]) != hello {
		return ErrNotSealed
	}
	mine, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("generating a key: %w", err)
	}
	toGuest, toHost, err := keys(mine, first[len(hello):], first[len(hello):], mine.PublicKey().Bytes(), c.token)
	if err != nil {
		return err
	}
	c.in, c.out.w, c.out.aead = reader{r: c.Conn, aead: toGuest}, c.Conn, toHost
	_, err = c.Conn.Write(mine.PublicKey().Bytes())
	return err
}

func (c *conn) Read(p []byte) (int, error) {
	if err := c.begin(); err != nil {
		return 0, err
	}
	return c.in.read(p)
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.begin(); err != nil {
		return 0, err
	}
	return c.out.write(p)
}
