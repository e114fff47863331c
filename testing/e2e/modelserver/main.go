// Command modelserver is the scripted model as a program, for tests of the real agents' CLIs: see package scripted for what it can do. The
// bound address is printed as one line.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/parawork/parawork/testing/testmodel/scripted"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "loopback address to listen on")
	token := flag.String("token", "", "the key every request must bring; empty: any")
	flag.Parse()
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", ln.Addr())
	var served http.Handler = scripted.New(*token)
	if os.Getenv("MODELSERVER_LOG") != "" {
		served = logged(served)
	}
	log.Fatal(http.Serve(ln, served))
}

func logged(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Printf("%s %s", r.Method, r.URL)
		h.ServeHTTP(w, r)
	})
}
