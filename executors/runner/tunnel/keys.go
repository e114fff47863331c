package tunnel

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// protocol is what both ends must name in the inner TLS.
const protocol = "parawork-runner"

// errKey rejects an end that proves another key than the pinned one.
var errKey = errors.New("the other end does not have the key it was enrolled with")

// proof returns the inner TLS configuration of an end with key, which accepts only the peer's key. Certificates are made for the connection
// and carry only a key: no name, no authority, no relevant date.
func proof(key ed25519.PrivateKey, peer ed25519.PublicKey) (*tls.Config, error) {
	if len(key) != ed25519.PrivateKeySize || len(peer) != ed25519.PublicKeySize {
		return nil, errors.New("making the connection's certificate: a key has the wrong length")
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: protocol},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the connection's certificate: %w", err)
	}
	pinned := append(ed25519.PublicKey(nil), peer...)
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:             []string{protocol},
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		InsecureSkipVerify:     true, // no authority signs these keys: VerifyConnection compares them with the pinned ones
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.NegotiatedProtocol != protocol || len(s.PeerCertificates) == 0 {
				return errKey
			}
			if got, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !pinned.Equal(got) {
				return errKey
			}
			return nil
		},
		// Use maximum-size records from the start: bulk data must not cost a system call for each packet.
		DynamicRecordSizingDisabled: true,
	}, nil
}
