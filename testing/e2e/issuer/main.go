// Command issuer is the test issuer as a program: it prints where it listens. POST /test/client and /test/person tell it who there is.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/parawork/parawork/testing/testissuer"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	base := "http://" + l.Addr().String()
	i := testissuer.New(base, time.Now)
	mux := http.NewServeMux()
	mux.Handle("/", i)
	mux.HandleFunc("POST /test/client", withBody(i.Register))
	mux.HandleFunc("POST /test/person", withBody(i.Know))
	fmt.Println("listening on " + base)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(l))
}

// notify takes a JSON body.
func withBody[T any](fn func(T)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var v T
		if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fn(v)
		w.WriteHeader(http.StatusNoContent)
	}
}
