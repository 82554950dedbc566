// SPDX-License-Identifier: Apache-2.0
// Serves one file by HTTP, or fetches it, with the JDK's own server and client.
// usage: FileByHttp serve PORT FILE | FileByHttp get URL

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.Executors;

final class FileByHttp {
    private static void serve(int port, Path path) throws IOException {
        var content = Files.readAllBytes(path);
        var server = HttpServer.create(new InetSocketAddress(port), 0);
        server.createContext("/", exchange -> {
            try (exchange) {
                exchange.sendResponseHeaders(200, content.length);
                exchange.getResponseBody().write(content);
            }
        });
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
    }

    private static void get(URI uri) throws IOException, InterruptedException {
        var client = HttpClient.newBuilder().connectTimeout(Duration.ofMinutes(1)).build();
        var answer = client.send(HttpRequest.newBuilder(uri).build(), BodyHandlers.ofByteArray());
        if (answer.statusCode() != 200) throw new IOException("status " + answer.statusCode());
        System.out.write(answer.body());
        System.out.flush();
    }

    public static void main(String[] words) throws IOException, InterruptedException {
        switch (words[0]) {
            case "serve" -> serve(Integer.parseInt(words[1]), Path.of(words[2]));
            case "get" -> get(URI.create(words[1]));
            default -> throw new IllegalArgumentException("usage: FileByHttp serve PORT FILE | FileByHttp get URL");
        }
    }
}
