//! The file-service interface over a real NFSv3 server
