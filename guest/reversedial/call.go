// Package reversedial reverses the direction of dialling. A guest that nobody can dial, as in a container without a network,
// dials its host: it keeps a few idle connections to the host's socket, and the host takes one whenever it wants a pipe. When the
// host goes away the guest dials again and again, until the next one is there.
//
// Both ends prove to each other that they know the sandbox's token before either sends anything else: another process that finds
// the socket learns nothing, and cannot pose as the guest.
//
// \tguest -> host "PWC1", role, 32 random bytes
// \thost -> guest 32 random bytes, proof("host")
// \tguest -> host proof("guest")
// \thost -> guest one byte, when the connection is wanted; from here on it is the pipe
//
// A proof is the HMAC-SHA256, with the token as key, of the prover, the role and both numbers. The role is that of a guest or
// that of a host's successor, at whose request a host closes its listener.
package reversedial

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	magic      = "PWC1"
	nonceSize  = 32
	goAhead    = 1
	handshake  = 5 * time.Second // how long one may take
	asGuest    = 'g'
	asNextHost = 'h'
)

// errProof reports that the other end does not know the token.
var errProof = errors.New("the other end does not know the token")

func proof(token string, who string, role byte, caller, host []byte) []byte {
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte(who))
	m.Write([]byte{0, role})
	m.Write(caller)
	m.Write(host)
	return m.Sum(nil)
}

// introduce is the caller's part of the handshake.
func introduce(conn net.Conn, token string, role byte) error {
	if err := conn.SetDeadline(time.Now().Add(handshake)); err != nil {
		return err
	}
	first := append([]byte(magic), role)
	first = append(first, make([]byte, nonceSize)...)
	nonce := first[len(magic)+1:]
	_, _ = rand.Read(nonce) // never fails
	if _, err := conn.Write(first); err != nil {
		return err
	}
	answer := make([]byte, nonceSize+sha256.Size)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return fmt.Errorf("waiting for the host's proof: %w", err)
	}
	host := answer[:nonceSize]
	if !hmac.Equal(answer[nonceSize:], proof(token, "host", role, nonce, host)) {
		return errProof
	}
	if _, err := conn.Write(proof(token, "guest", role, nonce, host)); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// receive is the host's part of the handshake.
func receive(conn net.Conn, token string) (role byte, err error) {
	if err := conn.SetDeadline(time.Now().Add(handshake)); err != nil {
		return 0, err
	}
	first := make([]byte, len(magic)+1+nonceSize)
	if _, err := io.ReadFull(conn, first); err != nil {
		return 0, err
	}
	role = first[len(magic)]
	if string(first[:len(magic)]) != magic || role != asGuest && role != asNextHost {
		return 0, errors.New("the caller uses another protocol")
	}
	answer := make([]byte, nonceSize, nonceSize+sha256.Size)
	_, _ = rand.Read(answer) // never fails
	caller, host := first[len(magic)+1:], answer[:nonceSize]
	if _, err := conn.Write(append(answer, proof(token, "host", role, caller, host)...)); err != nil {
		return 0, err
	}
	said := make([]byte, sha256.Size)
	if _, err := io.ReadFull(conn, said); err != nil {
		return 0, err
	}
	if !hmac.Equal(said, proof(token, "guest", role, caller, host)) {
		return 0, errProof
	}
	return role, conn.SetDeadline(time.Time{})
}

// TakeOver asks the host that listens at the other end of dial to close its listener: a server that is still there although its
// successor has started. A missing listener is not an error.
func TakeOver(ctx context.Context, dial func(context.Context) (net.Conn, error), token string) error {
	conn, err := dial(ctx)
	if err != nil {
		return nil
	}
	defer conn.Close()
	if err := introduce(conn, token, asNextHost); err != nil {
		return fmt.Errorf("taking over the listener: %w", err)
	}
	if err := conn.SetDeadline(time.Now().Add(handshake)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn) // until the listener is closed
	return err
}
