// Command stripe is the test Stripe as a program: it prints where it listens. Its key is sk_test_fake; POST /test/... tells it what to do.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/parawork/parawork/testing/teststripe"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := teststripe.New("http://"+l.Addr().String(), teststripe.Options{})
	go s.Run(context.Background())
	fmt.Println("listening on " + s.Base())
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(l))
}
