//! The gRPC service that the figures compare with, described here instead of in a .proto, so that no protoc is needed.

fn main() {
    let method = tonic_build::manual::Method::builder()
        .name("call")
        .route_name("Call")
        .input_type("crate::grpc::Payload")
        .output_type("crate::grpc::Payload")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    let many = tonic_build::manual::Method::builder()
        .name("many")
        .route_name("Many")
        .input_type("crate::grpc::Payload")
        .output_type("crate::grpc::Payload")
        .codec_path("tonic_prost::ProstCodec")
        .server_streaming()
        .build();
    let service = tonic_build::manual::Service::builder().name("Noop").package("catena.bench");
    let service = service.method(method).method(many).build();
    tonic_build::manual::Builder::new().compile(&[service]);
}
