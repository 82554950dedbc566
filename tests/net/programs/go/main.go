// SPDX-License-Identifier: Apache-2.0
// Serves one file by HTTP, gRPC and HTTP/3, and fetches it, with Go's standard library, grpc-go and quic-go.
// usage: talk serve FILE | talk http URL | talk http3 ADDRESS:PORT | talk grpc ADDRESS:PORT IDLE-SECONDS
package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go/http3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// echo is a gRPC service without a .proto file: it returns each message unchanged.
var echo = grpc.ServiceDesc{
	ServiceName: "Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: func(_ any, _ context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		said := &wrapperspb.BytesValue{}
		return said, read(said)
	}}},
}

// selfSigned makes a self-signed certificate without names.
func selfSigned() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	made, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	return tls.Certificate{Certificate: [][]byte{made}, PrivateKey: private}, err
}

func serve(path string) error {
	file := http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) { http.ServeFile(answer, request, path) })
	certificate, err := selfSigned()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", ":8085")
	if err != nil {
		return err
	}
	ended := make(chan error)
	go func() { ended <- http.ListenAndServe(":8084", file) }()
	go func() {
		server := grpc.NewServer()
		server.RegisterService(&echo, nil)
		ended <- server.Serve(listener)
	}()
	go func() {
		secrets := http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{certificate}})
		ended <- (&http3.Server{Addr: ":8443", Handler: file, TLSConfig: secrets}).ListenAndServe()
	}()
	return <-ended
}

// fetch writes the content of the URL to standard output.
func fetch(client *http.Client, url string) error {
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

func fetchByQUIC(address string) error {
	transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.Close()
	return fetch(&http.Client{Transport: transport, Timeout: time.Minute}, "https://"+address+"/file")
}

// say sends 1 MB and checks its echo.
func say(connection *grpc.ClientConn) error {
	sent, heard := wrapperspb.Bytes(make([]byte, 1<<20)), &wrapperspb.BytesValue{}
	rand.Read(sent.Value)
	limit, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := connection.Invoke(limit, "/Echo/Say", sent, heard); err != nil {
		return err
	}
	if !bytes.Equal(sent.Value, heard.Value) {
		return errors.New("the echo is another")
	}
	return nil
}

// sayTwice sends a request, waits, and sends another on the same connection: keepalives are off.
func sayTwice(address string, silence time.Duration) error {
	var connections atomic.Int32
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(limit context.Context, address string) (net.Conn, error) {
			connections.Add(1)
			return (&net.Dialer{KeepAlive: -1}).DialContext(limit, "tcp", address)
		}))
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := say(connection); err != nil {
		return fmt.Errorf("at first: %w", err)
	}
	time.Sleep(silence)
	if err := say(connection); err != nil {
		return fmt.Errorf("after %v: %w", silence, err)
	}
	if count := connections.Load(); count != 1 {
		return fmt.Errorf("%d connections", count)
	}
	return nil
}

func run(words []string) error {
	switch {
	case len(words) == 2 && words[0] == "serve":
		return serve(words[1])
	case len(words) == 2 && words[0] == "http":
		return fetch(&http.Client{Timeout: time.Minute}, words[1])
	case len(words) == 2 && words[0] == "http3":
		return fetchByQUIC(words[1])
	case len(words) == 3 && words[0] == "grpc":
		seconds, err := strconv.Atoi(words[2])
		if err != nil {
			return err
		}
		return sayTwice(words[1], time.Duration(seconds)*time.Second)
	}
	return errors.New("usage: talk serve FILE | talk http URL | talk http3 ADDRESS:PORT | talk grpc ADDRESS:PORT IDLE-SECONDS")
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}
