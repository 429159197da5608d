// Opens a mail with an advertisement that suits it (RPC Chains, section 4.2): the mail goes from its storage straight to the ads.
import { call } from "catena";

export default async function openMail({ user, id }: { user: string; id: number }) {
  const mail = await call("mail.storage/get", { user, id });
  const ad = await call("ads/pick", { text: mail.body });
  return { ...mail, ad };
}
